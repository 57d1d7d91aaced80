//! The store from outside: what each write does, answers and refuses.

mod decoding;
mod lab;
mod pods;
mod writes;
