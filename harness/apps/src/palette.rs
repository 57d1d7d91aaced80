//! Styles of printed tables.

use console::Style;
use schedlab_conformance::report::Colors;

/// Styles of printed text; without colors all of them leave a text as it is.
#[derive(Clone, Debug)]
pub(crate) struct Palette {
    /// Headings.
    pub(crate) bold: Style,
    /// What got better.
    pub(crate) good: Style,
    /// What stands out.
    pub(crate) warn: Style,
    /// What got worse, or is wrong.
    pub(crate) bad: Style,
    /// Everything else.
    pub(crate) plain: Style,
}

impl Palette {
    /// The styles with or without colors.
    pub(crate) fn new(colors: Colors) -> Self {
        let plain = Style::new().force_styling(colors == Colors::On);
        Self {
            bold: plain.clone().bold(),
            good: plain.clone().green(),
            warn: plain.clone().yellow(),
            bad: plain.clone().red(),
            plain,
        }
    }
}
