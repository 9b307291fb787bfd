// Package conversion converts objects between the versions of their kind. What an older version has
// no field for travels in annotations, so that it is not lost to who reads and writes that version.
package conversion
