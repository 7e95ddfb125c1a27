//! Draws numbers as SVG.
//!
//! The text is large enough to be read on a phone; colours come from mdBook's themes, with those of its light theme for
//! whoever opens the file by itself.

use svg::node::element::{Description, Line, Path, Rectangle, Style, Text, Title, SVG};

use super::data::{range, Copy, Numbers};

const WIDTH: f64 = 460.0;
const LINE: f64 = 18.0;

const STYLE: &str = "\
.figure text { fill: var(--fg, #000); font: 13px sans-serif; }
.figure .end { text-anchor: end; }
.figure .middle { text-anchor: middle; }
.figure .name { font-weight: 600; }
.figure .to-cpu { fill: var(--links, #20609f); }
.figure .to-gpu { fill: var(--fg, #000); opacity: 0.35; }
.figure .axis { stroke: var(--fg, #000); stroke-width: 1; opacity: 0.35; }
.figure .link { stroke: var(--links, #20609f); stroke-width: 1.5; stroke-dasharray: 6 4; }
.figure .page { fill: none; stroke: var(--fg, #000); stroke-width: 2; }
.figure .measured { stroke: var(--links, #20609f); stroke-width: 7; stroke-linecap: round; }";

/// An empty figure with its text for whoever cannot see it. `id` is unique in the book.
fn figure(id: &str, title: &str, description: &str, height: f64) -> SVG {
    SVG::new()
        .set("class", "figure")
        .set("role", "img")
        .set(
            "aria-labelledby",
            format!("figure-{id}-title figure-{id}-text"),
        )
        .set("viewBox", (0, 0, WIDTH, height))
        .set(
            "style",
            "display: block; width: 100%; max-width: 620px; margin: 1.6rem auto",
        )
        .add(Title::new(title).set("id", format!("figure-{id}-title")))
        .add(
            Description::new()
                .set("id", format!("figure-{id}-text"))
                .add(svg::node::Text::new(description)),
        )
        .add(Style::new(STYLE))
}

fn text(content: &str, class: &str, x: f64, y: f64) -> Text {
    Text::new(content)
        .set("class", class)
        .set("x", x)
        .set("y", y)
}

fn line(class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) -> Line {
    Line::new()
        .set("class", class)
        .set("x1", x1.round())
        .set("y1", y1.round())
        .set("x2", x2.round())
        .set("y2", y2.round())
}

/// A file without empty lines, so that Markdown takes it for one piece of HTML.
fn file(figure: SVG) -> String {
    figure.to_string() + "\n"
}

/// One group of bars for each machine: to the CPU, and to the GPU where that is known.
pub fn bars(id: &str, title: &str, copies: &[Copy]) -> String {
    let directions = |copy: &Copy| {
        let to_cpu = ("to-cpu", "to CPU", copy.to_cpu);
        let to_gpu = copy.to_gpu.map(|speed| ("to-gpu", "to GPU", speed));
        [Some(to_cpu), to_gpu]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
    };
    let said: Vec<String> = copies
        .iter()
        .map(|copy| {
            let speeds: Vec<String> = directions(copy)
                .iter()
                .map(|(_, name, speed)| format!("{name} {} GB/s", range(*speed)))
                .collect();
            format!("{}: {}.", copy.machine, speeds.join(", "))
        })
        .collect();
    let lines: usize = copies.iter().map(|copy| directions(copy).len() + 1).sum();
    let gaps = copies.len() as f64 * 8.0;
    let mut figure = figure(id, title, &said.join(" "), lines as f64 * LINE + gaps);

    let highest = copies.iter().flat_map(directions);
    let highest = highest.map(|(_, _, speed)| speed[1]).fold(0.0, f64::max);
    let (left, right) = (52.0, WIDTH - 118.0);
    let mut y = 0.0;
    for copy in copies {
        figure = figure.add(text(&copy.machine, "name", 0.0, y + 13.0));
        y += LINE;
        for (class, name, speed) in directions(copy) {
            let bar = Rectangle::new()
                .set("class", class)
                .set("x", left)
                .set("y", y + 2.0)
                .set("width", (speed[1] / highest * (right - left)).round())
                .set("height", LINE - 4.0);
            let end = left + (speed[1] / highest * (right - left)).round();
            figure = figure.add(text(name, "", 0.0, y + 13.0)).add(bar).add(text(
                &format!("{} GB/s", range(speed)),
                "",
                end + 6.0,
                y + 13.0,
            ));
            y += LINE;
        }
        y += 8.0;
    }
    file(figure)
}

/// How many bytes per second new pages allow, by what one fault costs, beside what the links carry.
pub fn page_bound(numbers: &Numbers) -> String {
    let (left, right, top, bottom) = (40.0, WIDTH - 8.0, 12.0, 290.0);
    let (fastest, slowest) = (100.0_f64, 100_000.0_f64);
    let (lowest, highest) = (0.1_f64, 1_000.0_f64);
    let x = |ns: f64| left + (ns / fastest).ln() / (slowest / fastest).ln() * (right - left);
    let y = |speed: f64| bottom - (speed / lowest).ln() / (highest / lowest).ln() * (bottom - top);
    // A page of so many bytes in each so many nanoseconds is so many GB/s.
    let speed = |page_kib: u32, ns: f64| f64::from(page_kib) * 1024.0 / ns;

    let faults: Vec<String> = numbers
        .faults
        .iter()
        .map(|it| {
            let [fast, slow] = it.ns.map(|ns| speed(it.page_kib, ns));
            format!(
                "{}: {} ns for a page of {} KiB, so {} GB/s.",
                it.machine,
                range(it.ns),
                it.page_kib,
                range([slow, fast].map(|it| (it * 10.0).round() / 10.0)),
            )
        })
        .collect();
    let description = format!(
        "Both axes are logarithmic. Across: the cost of one page fault, from 100 ns to 100 µs. \
         Up: GB/s. A line for each page size falls from the left to the right, because the speed \
         is the page size divided by the cost of a fault: with 4 KiB, 41 GB/s at 100 ns and \
         4.1 GB/s at 1 µs; with 64 KiB and with 2 MiB, 16 and 512 times as much. Dashed lines: \
         what the links carry to the CPU. Measured faults: {}",
        faults.join(" ")
    );
    let title = "The speed that new pages allow, one fault after another";
    let mut figure = figure("page-bound", title, &description, 330.0);

    for (ns, name) in [
        (100.0, "100 ns"),
        (1e3, "1 µs"),
        (1e4, "10 µs"),
        (1e5, "100 µs"),
    ] {
        let class = if ns == slowest { "end" } else { "middle" };
        figure = figure
            .add(line("axis", [x(ns), top], [x(ns), bottom]))
            .add(text(name, class, x(ns).round(), bottom + 18.0));
    }
    for gb in [0.1, 1.0, 10.0, 100.0, 1000.0] {
        figure = figure
            .add(line("axis", [left, y(gb)], [right, y(gb)]))
            .add(text(
                &gb.to_string(),
                "end",
                left - 5.0,
                y(gb).round() + 4.0,
            ));
    }
    figure = figure
        .add(text(
            "cost of one page fault",
            "middle",
            (left + right) / 2.0,
            bottom + 36.0,
        ))
        .add(text("GB/s", "name", left + 4.0, top + 14.0));
    // Each name stands above its line, where the lines leave room.
    for (page_kib, name, at) in [
        (4, "4 KiB pages", 300.0),
        (64, "64 KiB pages", 6_000.0),
        (2048, "2 MiB pages", 3_500.0),
    ] {
        // The line leaves the picture at its upper and its lower edge.
        let from = fastest.max(f64::from(page_kib) * 1024.0 / highest);
        let to = slowest.min(f64::from(page_kib) * 1024.0 / lowest);
        let [from, to, at] =
            [from, to, at].map(|ns| [x(ns).round(), y(speed(page_kib, ns)).round()]);
        let path = format!("M{},{} L{},{}", from[0], from[1], to[0], to[1]);
        figure = figure
            .add(Path::new().set("class", "page").set("d", path))
            .add(text(name, "name", at[0] + 8.0, at[1] + 2.0));
    }
    for (link, class, at) in [("C2C", "end", slowest), ("PCIe", "", 1_700.0)] {
        let copies = numbers.links.iter().filter(|copy| copy.link == link);
        let mut all = [f64::MAX, f64::MIN];
        for copy in copies {
            let middle = (copy.to_cpu[0] + copy.to_cpu[1]) / 2.0;
            figure = figure.add(line("link", [left, y(middle)], [right, y(middle)]));
            all = [all[0].min(copy.to_cpu[0]), all[1].max(copy.to_cpu[1])];
        }
        let name = format!("{link}: {} GB/s", range(all));
        figure = figure.add(text(
            &name,
            class,
            x(at).round() - 4.0,
            y(all[1]).round() - 6.0,
        ));
    }
    for it in &numbers.faults {
        let [from, to] = it.ns.map(|ns| [x(ns), y(speed(it.page_kib, ns))]);
        figure = figure.add(line("measured", from, to));
    }
    file(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_one_piece_of_html() {
        let drawn = bars("none", "A & B", &[]);
        assert!(drawn.starts_with("<svg "), "{drawn}");
        assert!(!drawn.contains("\n\n"), "{drawn}");
        assert!(drawn.contains("A &amp; B"), "{drawn}");
    }
}
