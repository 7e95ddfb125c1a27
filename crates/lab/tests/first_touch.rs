//! Alone in its process: the kernel counts the faults of all threads together.

use lab::{page_size, Faults, Pageable};

/// Writes one byte to every page and returns how many minor faults that took.
fn touch(buffer: &mut Pageable<u8>) -> anyhow::Result<u64> {
    let before = Faults::now()?;
    for page in buffer.chunks_mut(page_size()) {
        page[0] = 1;
    }
    Ok(Faults::now()?.since(&before).minor)
}

#[test]
fn every_page_faults_once_when_it_is_first_touched_and_never_again() -> anyhow::Result<()> {
    let pages = 1000;
    let bytes = pages * page_size();
    let mut untouched = Pageable::untouched(bytes)?;
    let mut zeroed = Pageable::zeroed(bytes)?;
    // The code that counts is itself mapped page by page: run it once before it counts.
    touch(&mut Pageable::untouched(1)?)?;

    assert_eq!(touch(&mut untouched)?, pages as u64);
    assert_eq!(touch(&mut untouched)?, 0);
    assert_eq!(touch(&mut zeroed)?, 0);
    Ok(())
}
