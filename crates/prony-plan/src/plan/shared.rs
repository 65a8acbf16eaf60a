//! Lists shared by many parts of a plan, or by its shares.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A copy-on-write list. A plan may have very many calls, which all its shares contain; most calls
/// have the same headers.
pub struct Shared<T>(Option<Arc<Vec<T>>>);

impl<T: Clone> Shared<T> {
    /// Append an element to this copy only.
    pub fn push(&mut self, item: T) {
        self.to_mut().push(item);
    }

    /// Clear this copy only.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// A mutable list for this copy only.
    fn to_mut(&mut self) -> &mut Vec<T> {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        if self.0.is_none() { &mut [] } else { self.to_mut() }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        same || self[..] == other[..]
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(list: Vec<T>) -> Self {
        Self((!list.is_empty()).then(|| Arc::new(list)))
    }
}

impl<T> FromIterator<T> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<'a, T> IntoIterator for &'a Shared<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut Shared<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// As a list.
impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self[..].serialize(serializer)
    }
}

/// From a list.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_affects_one_copy_only() {
        let one = Shared::from(vec![1, 2]);
        let mut other = one.clone();
        assert!(std::ptr::eq(&one[0], &other[0]), "a copy is the same list");
        other.push(3);
        other[0] = 7;
        assert_eq!((&one[..], &other[..]), (&[1, 2][..], &[7, 2, 3][..]));
        other.clear();
        assert_eq!((other, one.len()), (Shared::default(), 2));
    }

    #[test]
    fn empty_lists_are_equal() {
        let mut emptied = Shared::from(vec![1]);
        emptied.to_mut().pop();
        assert_eq!(emptied, Shared::default());
        assert_eq!(Shared::<u8>::from(Vec::new()), Shared::default());
        assert_eq!((&mut Shared::<u8>::default()).into_iter().count(), 0);
    }

    #[test]
    fn serializes_as_a_list() {
        let list = Shared::from(vec!["a".to_owned()]);
        let text = serde_json::to_string(&list).unwrap();
        assert_eq!(text, r#"["a"]"#);
        assert_eq!(serde_json::from_str::<Shared<String>>(&text).unwrap(), list);
    }
}
