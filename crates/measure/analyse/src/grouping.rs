//! Groups equal items in the order in which they first come: reports keep the order of the plan.

/// Items in groups; an item belongs to the first group whose first member it is like.
pub fn grouped<T>(
    items: impl IntoIterator<Item = T>,
    is_alike: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        let is_its =
            |group: &&mut Vec<T>| group.first().is_some_and(|first| is_alike(first, &item));
        // A search, not a map: what makes things alike has floats in it, and the lists are short.
        match groups.iter_mut().find(is_its) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

pub fn each_once<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}
