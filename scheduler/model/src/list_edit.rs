//! Elements that were inserted into a list and removed from it, at once: the rest keeps its order.

/// How a list became another one. Positions of removed elements are those before the edit,
/// positions of inserted ones those after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListEdit {
    removed: Vec<u32>,
    inserted: Vec<u32>,
}

/// Up to so many elements are inserted and removed one by one; more are merged in one pass.
const ONE_BY_ONE_MAX: usize = 4;

impl ListEdit {
    /// The edit that removes the elements at `removed` and then inserts elements before those that
    /// were at the positions `before` (the length of the list: at its end). Both are ascending;
    /// elements inserted before the same one keep their order.
    pub fn new(removed: Vec<u32>, before: &[u32]) -> Self {
        let mut gone = removed.iter().peekable();
        let mut removed_so_far = 0;
        let mut inserted = Vec::with_capacity(before.len());
        for (at, inserted_so_far) in before.iter().zip(0..) {
            while gone.next_if(|gone| *gone < at).is_some() {
                removed_so_far += 1;
            }
            inserted.push(at - removed_so_far + inserted_so_far);
        }
        Self { removed, inserted }
    }

    /// Whether nothing was inserted or removed.
    pub const fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.inserted.is_empty()
    }

    /// Positions of the removed elements, before the edit.
    pub fn removed(&self) -> &[u32] {
        &self.removed
    }

    /// Positions of the inserted elements, after the edit.
    pub fn inserted(&self) -> &[u32] {
        &self.inserted
    }

    /// For each position of a list of this length before the edit, the position after it; `None`
    /// for removed elements.
    pub fn new_positions(&self, length: usize) -> Vec<Option<u32>> {
        let (mut gone, mut come) =
            (self.removed.iter().peekable(), self.inserted.iter().peekable());
        let mut next = 0;
        let length = u32::try_from(length).expect("a list has fewer than 2^32 elements");
        let position = |at: u32| {
            if gone.next_if(|gone| **gone == at).is_some() {
                return None;
            }
            while come.next_if(|come| **come == next).is_some() {
                next += 1;
            }
            next += 1;
            Some(next - 1)
        };
        (0..length).map(position).collect()
    }

    /// Edits a list that is parallel to the edited one; `new` makes the inserted elements, in order
    /// of their positions.
    pub fn apply<T>(&self, list: &mut Vec<T>, mut new: impl FnMut(u32) -> T) {
        if self.removed.len() + self.inserted.len() <= ONE_BY_ONE_MAX {
            for at in self.removed.iter().rev() {
                list.remove(*at as usize);
            }
            for at in &self.inserted {
                list.insert(*at as usize, new(*at));
            }
            return;
        }
        let length = list.len() - self.removed.len() + self.inserted.len();
        let (mut gone, mut come) =
            (self.removed.iter().peekable(), self.inserted.iter().peekable());
        let mut edited = Vec::with_capacity(length);
        for (element, at) in std::mem::take(list).into_iter().zip(0..) {
            if gone.next_if(|gone| **gone == at).is_some() {
                continue;
            }
            while let Some(at) = come.next_if(|come| **come as usize == edited.len()) {
                edited.push(new(*at));
            }
            edited.push(element);
        }
        edited.extend(come.map(|at| new(*at)));
        *list = edited;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The letters `a` to `h` after the edit; inserted elements are capitals.
    fn edited(removed: &[u32], before: &[u32]) -> (String, String) {
        let edit = ListEdit::new(removed.to_vec(), before);
        let old: Vec<char> = ('a'..='h').collect();
        let mut list = old.clone();
        let mut capitals = 'A'..;
        edit.apply(&mut list, |_| capitals.next().expect("there are more letters"));
        let positions = edit.new_positions(old.len());
        let moved = old.iter().zip(positions).map(|(letter, at)| {
            at.map_or('-', |at| if list[at as usize] == *letter { *letter } else { '?' })
        });
        (list.iter().collect(), moved.collect())
    }

    #[test]
    fn one_or_many_elements_are_inserted_and_removed() {
        let of = |list: &str, moved: &str| (list.to_owned(), moved.to_owned());
        assert_eq!(edited(&[], &[]), of("abcdefgh", "abcdefgh"));
        assert_eq!(edited(&[2], &[]), of("abdefgh", "ab-defgh"));
        assert_eq!(edited(&[], &[0, 8]), of("AabcdefghB", "abcdefgh"));
        assert_eq!(edited(&[2], &[2, 2]), of("abABdefgh", "ab-defgh"));
        assert_eq!(edited(&[0, 1, 7], &[0, 1, 2, 8]), of("ABCcdefgD", "--cdefg-"));
        assert_eq!(edited(&[0, 1, 2, 3, 4, 5, 6, 7], &[4]), of("A", "--------"));
    }
}
