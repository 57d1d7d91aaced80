//! The store from outside: what each write does, answers and refuses.

mod accounts;
mod branches;
mod custom;
mod decoding;
mod embedded;
mod ends;
mod lab;
mod lists;
mod malformed;
mod pods;
mod workloads;
mod writes;
