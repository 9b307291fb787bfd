// Package fence prevents a deposed leader from writing. A fence names a term of leadership: a Lease
// as one candidate holds it. The leader sends the fence with each write, and the apiserver commits
// the write only if the Lease is held in that term. It checks that in the same transaction, without
// a clock.
//
// A context carries the fence from package election to the client. A header carries it over HTTP
// and over NATS, and the request's context to the apiserver's store. Any Lease will do: this
// package does not know what its holder leads.
package fence

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Header is the HTTP request header in which a leader sends its fence with each write, in the form
// of Fence.String. Servers other than Garboard's ignore it.
const Header = "Garboard-Fence"

// Limits of a fence.
const (
	// MaxText is the maximum length of String, in bytes.
	MaxText = 4096
	// MaxHolder and MaxUID are the maximum lengths of those fields, in bytes.
	MaxHolder = 1024
	MaxUID    = 128
)

// Fence names one term of leadership.
type Fence struct {
	// Namespace and Name are those of the Lease.
	Namespace, Name string
	// UID is the Lease's UID: a Lease that was deleted and created again is a different one.
	UID types.UID
	// Holder is the holderIdentity of the leader.
	Holder string
	// Transitions is the leaseTransitions of the term: it distinguishes the term from a later one
	// of the same holder.
	Transitions int32
}

// Of returns the fence of a lease's holder; Holder is empty if no one holds the lease.
func Of(lease *coordinationv1.Lease) Fence {
	f := Fence{Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID}
	if lease.Spec.HolderIdentity != nil {
		f.Holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.LeaseTransitions != nil {
		f.Transitions = *lease.Spec.LeaseTransitions
	}
	return f
}

// Check returns an error if the fence is not valid for sending.
func (f Fence) Check() error {
	switch {
	case len(validation.IsDNS1123Label(f.Namespace)) > 0:
		return fmt.Errorf("%q is not a namespace", f.Namespace)
	case len(validation.IsDNS1123Subdomain(f.Name)) > 0:
		return fmt.Errorf("%q is not the name of a lease", f.Name)
	case f.UID == "" || len(f.UID) > MaxUID || !utf8.ValidString(string(f.UID)):
		return fmt.Errorf("the UID of the lease must have 1 to %d bytes of text", MaxUID)
	case f.Holder == "" || len(f.Holder) > MaxHolder || !utf8.ValidString(f.Holder):
		return fmt.Errorf("the holder of the lease must have 1 to %d bytes of text", MaxHolder)
	case f.Transitions < 0:
		return fmt.Errorf("%d is not a number of transitions", f.Transitions)
	}
	return nil
}

// The parts of the text form.
const (
	uidPart         = "uid="
	transitionsPart = "transitions="
	holderPart      = "holder="
)

// String returns the only text form of a fence:
//
//	NAMESPACE/NAME;uid=UID;transitions=NUMBER;holder=HOLDER
//
// with the UID and the holder escaped as a segment of a URL path (url.PathEscape).
func (f Fence) String() string {
	return f.Namespace + "/" + f.Name + ";" + uidPart + url.PathEscape(string(f.UID)) +
		";" + transitionsPart + strconv.FormatInt(int64(f.Transitions), 10) + ";" + holderPart + url.PathEscape(f.Holder)
}

// Parse parses what String returns for a fence that passes Check; any other text is an error.
func Parse(text string) (Fence, error) {
	f, err := parse(text)
	if err != nil {
		shown := text
		if len(shown) > 100 {
			shown = shown[:100] + "..."
		}
		return Fence{}, fmt.Errorf("%q is not NAMESPACE/NAME;uid=UID;transitions=NUMBER;holder=HOLDER: %w", shown, err)
	}
	return f, nil
}

func parse(text string) (Fence, error) {
	if len(text) > MaxText {
		return Fence{}, fmt.Errorf("it has %d bytes, more than %d", len(text), MaxText)
	}
	parts := strings.Split(text, ";")
	if len(parts) != 4 {
		return Fence{}, fmt.Errorf("it has %d parts, not 4", len(parts))
	}
	var f Fence
	var ok bool
	if f.Namespace, f.Name, ok = strings.Cut(parts[0], "/"); !ok {
		return Fence{}, errors.New("it does not begin with NAMESPACE/NAME")
	}
	uid, err := value(parts[1], uidPart)
	if err != nil {
		return Fence{}, err
	}
	f.UID = types.UID(uid)
	number, err := value(parts[2], transitionsPart)
	if err != nil {
		return Fence{}, err
	}
	transitions, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return Fence{}, fmt.Errorf("%q is not a number of transitions", number)
	}
	f.Transitions = int32(transitions)
	if f.Holder, err = value(parts[3], holderPart); err != nil {
		return Fence{}, err
	}
	if err := f.Check(); err != nil {
		return Fence{}, err
	}
	if f.String() != text {
		return Fence{}, errors.New("it is not in canonical form")
	}
	return f, nil
}

// value returns the unescaped value of a named part.
func value(part, name string) (string, error) {
	escaped, ok := strings.CutPrefix(part, name)
	if !ok {
		return "", fmt.Errorf("found %q, want %sVALUE", part, name)
	}
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return "", fmt.Errorf("%q is not escaped correctly", escaped)
	}
	return plain, nil
}
