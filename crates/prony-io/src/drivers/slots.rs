//! Connections by the IDs that the machine assigns.

use prony_base::units::ConnId;

/// A connection for each ID in use. An ID is a slot, which is reused, and a generation, which is
/// not: an ID from before the slot was reused finds nothing.
#[derive(Debug)]
pub(crate) struct SlotTable<C> {
    slots: Vec<Slot<C>>,
}

#[derive(Debug)]
struct Slot<C> {
    generation: u32,
    conn: Option<C>,
}

impl<C> SlotTable<C> {
    /// An empty table.
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// Add a connection under this ID.
    ///
    /// # Panics
    /// With debug assertions, if the slot is still in use.
    pub(crate) fn insert(&mut self, id: ConnId, conn: C) {
        let slot = id.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || Slot { generation: 0, conn: None });
        }
        debug_assert!(self.slots[slot].conn.is_none(), "{id:?} is still in use");
        self.slots[slot] = Slot { generation: id.generation, conn: Some(conn) };
    }

    /// The connection with this ID, unless it was removed.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut C> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.conn.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// Whether a connection has this ID.
    pub(crate) fn contains(&mut self, id: ConnId) -> bool {
        self.get_mut(id).is_some()
    }

    /// Remove the connection with this ID.
    pub(crate) fn remove(&mut self, id: ConnId) -> Option<C> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.conn.take_if(|_| slot.generation == id.generation)
    }

    /// All connections with their IDs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnId, &C)> {
        self.slots.iter().enumerate().filter_map(|(slot, s)| {
            Some((ConnId { slot: slot as u32, generation: s.generation }, s.conn.as_ref()?))
        })
    }

    /// Remove all connections and free the table's memory.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = C> + use<C> {
        std::mem::take(&mut self.slots).into_iter().filter_map(|s| s.conn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(slot: u32, generation: u32) -> ConnId {
        ConnId { slot, generation }
    }

    #[test]
    fn finds_a_connection_by_slot_and_generation_only() {
        let mut table = SlotTable::new();
        table.insert(id(2, 7), "a");
        table.insert(id(0, 1), "b");
        assert_eq!(table.get_mut(id(2, 7)), Some(&mut "a"));
        for other in [id(2, 6), id(2, 0), id(1, 0), id(1, 7), id(3, 0)] {
            assert_eq!(table.get_mut(other), None, "{other:?}");
            assert_eq!(table.remove(other), None, "{other:?}");
        }
        assert_eq!(table.iter().collect::<Vec<_>>(), [(id(0, 1), &"b"), (id(2, 7), &"a")]);
    }

    #[test]
    fn old_ids_find_nothing_after_their_slot_is_reused() {
        let mut table = SlotTable::new();
        table.insert(id(0, 0), 'x');
        assert_eq!(table.remove(id(0, 0)), Some('x'));
        assert_eq!((table.remove(id(0, 0)), table.contains(id(0, 0))), (None, false));
        table.insert(id(0, 1), 'y');
        assert!(!table.contains(id(0, 0)) && table.contains(id(0, 1)));
        assert_eq!(table.take_all().collect::<String>(), "y");
        assert_eq!(table.iter().count(), 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "still in use")]
    fn insert_panics_when_the_slot_is_in_use() {
        let mut table = SlotTable::new();
        table.insert(id(0, 0), ());
        table.insert(id(0, 1), ());
    }

    /// The table adds only the generation to the memory of a connection.
    #[test]
    fn slot_size_is_connection_plus_generation() {
        struct Conn {
            _fd: i32,
            _is_open: bool,
        }
        assert_eq!(size_of::<Slot<Conn>>(), size_of::<Conn>() + size_of::<u32>());
    }
}
