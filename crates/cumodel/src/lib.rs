//! cumodel
