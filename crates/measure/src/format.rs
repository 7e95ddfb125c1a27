//! Quantities as a person reads them.

use bytesize::ByteSize;

/// `64 MiB`.
pub fn bytes(bytes: u64) -> String {
    let text = ByteSize(bytes).display().iec().to_string();
    text.replace(".0 ", " ")
}

/// A duration in nanoseconds, with three significant digits.
pub fn seconds(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| ns >= *unit)
        .unwrap_or((1.0, "ns"));
    format!("{} {name}", digits(ns / unit))
}

/// A number with three significant digits, as far as that needs no more than two decimals.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// `6.4 times`.
pub fn times(ratio: f64) -> String {
    format!("{ratio:.1} times")
}

/// `96 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_short() {
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(seconds(0.0), "0.00 ns");
        assert_eq!(seconds(1234.0), "1.23 µs");
        assert_eq!(seconds(98_765_432.0), "98.8 ms");
        assert_eq!(seconds(2e9), "2.00 s");
        assert_eq!(
            (times(6.42), percent(0.957)),
            ("6.4 times".into(), "96 %".into())
        );
    }
}
