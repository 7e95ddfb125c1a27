//! Values that show whether a copy has arrived.

/// What a host buffer holds before a copy; no listing ever computes this value.
pub const POISON: u32 = 0xEEEE_EEEE;

/// Fills a buffer with [`POISON`].
pub fn poison(buffer: &mut [u32]) {
    buffer.fill(POISON);
}

/// Reads the last element of a buffer that a copy may be writing at this moment.
///
/// It is a probe, not a way to read data: the compiler may neither move nor drop this load, so it
/// shows what is in memory now. The last element is what a copy that has begun writes last.
///
/// # Panics
/// When the buffer is empty.
pub fn probe(buffer: &[u32]) -> u32 {
    let last = &buffer[buffer.len() - 1];
    // SAFETY: the reference is valid for reads and aligned.
    unsafe { std::ptr::read_volatile(last) }
}

/// Says what was read; and if it is not what a correct program reads, what that would be.
pub fn verdict(read: u32, right: u32) -> String {
    match read {
        _ if read == right => format!("read {read}"),
        POISON => format!("read {POISON:#x} instead of {right}: WRONG"),
        _ => format!("read {read} instead of {right}: WRONG"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poisoned_buffer_is_poisoned_to_its_end() {
        let mut buffer = [7; 5];
        poison(&mut buffer);
        assert_eq!(buffer, [POISON; 5]);
        assert_eq!(probe(&buffer), POISON);
        buffer[4] = 8;
        assert_eq!(probe(&buffer), 8);
    }

    #[test]
    fn a_verdict_says_wrong_only_when_it_is() {
        assert_eq!(verdict(7, 7), "read 7");
        assert_eq!(verdict(2, 1), "read 2 instead of 1: WRONG");
        assert_eq!(verdict(POISON, 7), "read 0xeeeeeeee instead of 7: WRONG");
    }
}
