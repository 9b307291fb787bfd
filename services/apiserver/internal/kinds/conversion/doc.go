// Package conversion converts objects between the versions of their kind. What an older version has
// no field for is kept in annotations, so that clients that read and write that version don't lose
// it.
package conversion
