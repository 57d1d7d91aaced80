//! A table of a step: columns that are empty in all rows are left out.

/// Columns with their cells, in the order of the rows.
#[derive(Debug, Default)]
pub(super) struct StepTable {
    columns: Vec<(&'static str, Vec<String>)>,
    rows: usize,
}

impl StepTable {
    /// Adds a row; a column that is not named is empty.
    pub(super) fn add_row(&mut self, cells: &[(&'static str, String)]) {
        for (column, _) in cells {
            if !self.columns.iter().any(|(known, _)| known == column) {
                self.columns.push((column, vec![String::new(); self.rows]));
            }
        }
        for (column, column_cells) in &mut self.columns {
            let cell = cells.iter().find(|(known, _)| known == column);
            column_cells.push(cell.map(|(_, text)| text.clone()).unwrap_or_default());
        }
        self.rows += 1;
    }

    /// The table as text, indented below a step.
    pub(super) fn text(&self) -> String {
        let used = self.columns.iter().filter(|(_, cells)| cells.iter().any(|it| !it.is_empty()));
        let used: Vec<(&str, &Vec<String>, usize)> = used
            .map(|(name, cells)| {
                let lengths = cells.iter().map(|cell| cell.chars().count());
                let width = lengths.chain([name.chars().count()]).max().unwrap_or(0);
                (*name, cells, width)
            })
            .collect();
        let line = |cell: &dyn Fn(&(&str, &Vec<String>, usize)) -> String| {
            let cells: Vec<String> =
                used.iter().map(|column| format!("{:w$}", cell(column), w = column.2)).collect();
            format!("      | {} |\n", cells.join(" | "))
        };
        let mut text = line(&|(name, _, _)| (*name).to_owned());
        for row in 0..self.rows {
            text.push_str(&line(&|(_, cells, _)| cells[row].clone()));
        }
        text
    }
}
