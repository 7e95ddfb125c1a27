//! Guesses what a misspelt name was meant to be.

use strsim::damerau_levenshtein;

/// `; did you mean <name>?` for the candidate nearest to `wanted`, or nothing if none is near.
pub(crate) fn did_you_mean<'a>(
    wanted: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    let limit = wanted.len() / 3 + 1;
    candidates
        .into_iter()
        .map(|candidate| (damerau_levenshtein(wanted, candidate), candidate))
        .filter(|(distance, _)| (1..=limit).contains(distance))
        .min()
        .map(|(_, candidate)| format!("; did you mean {candidate}?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_nearest_and_nothing_far() {
        let names = ["pinned_reuse", "pinned_reuse_broken", "two_buffers"];
        assert_eq!(
            did_you_mean("pinned_resue", names),
            "; did you mean pinned_reuse?"
        );
        assert_eq!(did_you_mean("graph", names), "");
    }
}
