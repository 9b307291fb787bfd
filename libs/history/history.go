// Package history names the lives of etcd clusters.
package history

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Header is the header of an answer over HTTP in which Garboard's apiserver says, as ID.String
// spells it, of which history the revisions in a list or a watch are. Other servers do not send
// it.
const Header = "Garboard-History"

// ID names one life of one etcd cluster. Revisions of different histories cannot be compared.
// The zero ID names none: that of what is not known to be of any.
type ID struct {
	// Created is when the history began, in nanoseconds since the epoch.
	Created int64 `json:"created"`
	// Nonce tells histories of the same instant apart.
	Nonce uint64 `json:"nonce"`
}

// Compare is negative if id is the older of two histories, 0 if both are the same, else positive.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Created, other.Created), cmp.Compare(id.Nonce, other.Nonce))
}

// Before says whether id is the older of two histories.
func (id ID) Before(other ID) bool { return id.Compare(other) < 0 }

// String is Created, a dash and Nonce in 16 hexadecimal digits; empty for the zero ID.
func (id ID) String() string {
	if id == (ID{}) {
		return ""
	}
	return fmt.Sprintf("%d-%016x", id.Created, id.Nonce)
}

// Parse reads what String wrote; an error if it is empty.
func Parse(text string) (ID, error) {
	created, nonce, _ := strings.Cut(text, "-")
	var id ID
	var err error
	if id.Created, err = strconv.ParseInt(created, 10, 64); err == nil {
		id.Nonce, err = strconv.ParseUint(nonce, 16, 64)
	}
	if err != nil || id == (ID{}) {
		return ID{}, fmt.Errorf("%q is no history", text)
	}
	return id, nil
}
