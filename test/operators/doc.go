// Package operators judges the plane by operators that others wrote, unmodified, and by one of ours.
// Each has a story: its definitions are applied, it reconciles, every service of the plane restarts and
// so does the operator, it goes on reconciling, and its definitions are deleted.
//
// The folders below programs have one module for each of these operators, with the version that is
// built. A program is built once and kept in the user's cache: `make operators`.
package operators
