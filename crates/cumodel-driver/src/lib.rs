//! cumodel-driver
