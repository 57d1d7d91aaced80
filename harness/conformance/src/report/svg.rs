//! The report for people as an image: the terminal's text, with its colors, as SVG.

use super::{Colors, PrettyPrinter, Report, summary_text};

/// Draws a report as SVG. Equal reports give equal images: there are no wall times in them.
pub fn svg_image(report: &Report) -> String {
    let mut printer = PrettyPrinter::new(Colors::On);
    let cases: String = report.cases.iter().map(|case| printer.case_text(case)).collect();
    anstyle_svg::Term::new().render_svg(&format!("{cases}{}", summary_text(report, None)))
}

#[cfg(test)]
mod tests {
    use super::svg_image;
    use crate::report::tests::case;
    use crate::report::{CaseOutcome, CaseReport, Report};

    #[test]
    fn an_image_shows_the_scenarios_and_the_totals_without_wall_time() {
        let passed = case(CaseOutcome::Passed, false, false);
        let passed = CaseReport { name: "A gang <waits>".to_owned(), ..passed };
        let image = svg_image(&Report { cases: vec![passed], ..Report::default() });
        assert!(image.starts_with("<svg"), "{image}");
        for text in
            ["A gang &lt;waits&gt;", "1 scenario: 1 passed", "1.500 s of virtual time (seed "]
        {
            assert!(image.contains(text), "no {text} in {image}");
        }
    }
}
