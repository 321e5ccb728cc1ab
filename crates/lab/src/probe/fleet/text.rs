//! The fleet for people.

use std::fmt;

use super::super::paragraph::paragraph;
use super::{Fleet, MOST_NODES, Table};

/// Room for the widest word of a matrix.
const CELL: usize = 11;

impl fmt::Display for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Fleet of {}: who resumes whose tickets\n", self.name)?;
        for node in &self.nodes {
            let failure = node
                .failure
                .as_deref()
                .map(|failure| format!("   {failure}"));
            writeln!(
                f,
                "  {:<3}{}{}",
                node.node,
                node.endpoint,
                failure.unwrap_or_default()
            )?;
        }
        if self.left_out > 0 {
            writeln!(
                f,
                "  {} more were left out: {MOST_NODES} are compared at most, name others with --endpoint",
                self.left_out
            )?;
        }
        for (number, table) in self.matrices.iter().enumerate() {
            writeln!(f)?;
            let mut before = self.matrices[..number].iter();
            match before.find(|other| other.shown == table.shown && !table.not_spoken) {
                Some(same) => writeln!(f, "{}: as in {}", table.version, same.version)?,
                None => self.matrix(f, table)?,
            }
        }
        writeln!(f)?;
        f.write_str(&paragraph("Verdict: ", &self.verdict))?;
        for advice in &self.advice {
            f.write_str(&paragraph("  - ", advice))?;
        }
        Ok(())
    }
}

impl Fleet {
    fn matrix(&self, f: &mut fmt::Formatter<'_>, table: &Table) -> fmt::Result {
        if table.not_spoken {
            return writeln!(f, "{}: no handshake with any node worked", table.version);
        }
        writeln!(
            f,
            "{}: ticket from the node at the left, shown to the node above",
            table.version
        )?;
        let heads = self
            .nodes
            .iter()
            .map(|node| format!("{:<CELL$}", node.node));
        writeln!(f, "       {}", heads.collect::<String>().trim_end())?;
        for (node, row) in self.nodes.iter().zip(&table.shown) {
            let cells = row.iter().map(|shown| format!("{:<CELL$}", shown.word()));
            writeln!(
                f,
                "  {:<5}{}",
                node.node,
                cells.collect::<String>().trim_end()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tollgate_terms::TlsVersion;

    use super::super::matrix::{Matrix, Shown};
    use super::super::{Fleet, Node, judged, letters};

    fn fleet(matrix: Vec<Vec<Shown>>) -> Fleet {
        let nodes = (0..matrix.len()).map(|number| Node {
            node: letters(number),
            endpoint: format!("192.0.2.{number}:443"),
            failure: None,
        });
        let matrices = [(TlsVersion::Tls13, Matrix(matrix))];
        judged("shop.test", nodes.collect(), 0, &matrices)
    }

    #[test]
    fn a_whole_fleet_needs_no_advice() {
        let fleet = fleet(vec![vec![Shown::Resumed; 3]; 3]);
        assert_eq!(
            fleet.verdict,
            "TLSv1.3: all 3 nodes share their ticket keys."
        );
        assert!(!fleet.has_findings());
    }

    #[test]
    fn a_split_fleet_shows_its_matrix_its_price_and_the_way_out() {
        use Shown::{Full, Resumed};
        let fleet = fleet(vec![
            vec![Resumed, Resumed, Full],
            vec![Resumed, Resumed, Full],
            vec![Full, Full, Resumed],
        ]);
        let text = fleet.to_string();
        assert!(
            text.contains("  C    full       full       resumed\n"),
            "{text}"
        );
        assert!(fleet.verdict.contains("2 groups: A B | C."), "{text}");
        assert!(fleet.verdict.contains("resumes in 56 % of them"), "{text}");
        assert!(fleet.advice[0].contains("same ticket keys"), "{text}");
        assert!(fleet.has_findings());
    }

    #[test]
    fn a_node_without_resumption_is_named() {
        use Shown::{Full, NoTicket, Resumed};
        let fleet = fleet(vec![vec![Resumed, Full], vec![NoTicket, NoTicket]]);
        assert_eq!(fleet.advice.len(), 1, "{:?}", fleet.advice);
        assert!(fleet.advice[0].starts_with("TLSv1.3: B not even resumes its own"));
    }

    #[test]
    fn letters_go_on_after_z() {
        let named: Vec<String> = [0, 25, 26, 27, 52].map(letters).into();
        assert_eq!(named, ["A", "Z", "AA", "AB", "BA"]);
    }
}
