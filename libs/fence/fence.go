// Package fence keeps a leader who was deposed from writing. A fence names a term of leadership:
// a Lease, as one candidate holds it. Whoever leads sends the fence with each write, and the
// apiserver makes the write only while the lease is held in that term, which it compares in the
// transaction that writes. No clock is asked.
//
// A fence is carried by a context, from package election to the client; by a header, over HTTP
// and over NATS; and by the context of the request, to the apiserver's store. Any Lease will do:
// what leads what is not known here.
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

// Header is the header of a request over HTTP in which a leader sends its fence, as Fence.String
// spells it, with each write. Other servers than Garboard's do not know it.
const Header = "Garboard-Fence"

// Bounds of what a fence may be.
const (
	// MaxText is how many bytes String may have.
	MaxText = 4096
	// MaxHolder and MaxUID are how many bytes those may have.
	MaxHolder = 1024
	MaxUID    = 128
)

// Fence names one term of leadership.
type Fence struct {
	// Namespace and Name are those of the Lease.
	Namespace, Name string
	// UID is the Lease's: one that was deleted and made again is another.
	UID types.UID
	// Holder is the holderIdentity of who leads.
	Holder string
	// Transitions is the leaseTransitions of the term: it tells a term from a later one of the
	// same holder.
	Transitions int32
}

// Of is the fence of who holds a lease; its Holder is empty if nobody does.
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

// Check says what is wrong with a fence that is to be sent; nil if nothing is.
func (f Fence) Check() error {
	switch {
	case len(validation.IsDNS1123Label(f.Namespace)) > 0:
		return fmt.Errorf("%q is no namespace", f.Namespace)
	case len(validation.IsDNS1123Subdomain(f.Name)) > 0:
		return fmt.Errorf("%q is no name of a lease", f.Name)
	case f.UID == "" || len(f.UID) > MaxUID || !utf8.ValidString(string(f.UID)):
		return fmt.Errorf("the UID of the lease is not of 1 to %d bytes of text", MaxUID)
	case f.Holder == "" || len(f.Holder) > MaxHolder || !utf8.ValidString(f.Holder):
		return fmt.Errorf("the holder of the lease is not of 1 to %d bytes of text", MaxHolder)
	case f.Transitions < 0:
		return fmt.Errorf("%d is no number of transitions", f.Transitions)
	}
	return nil
}

// The parts of the text form.
const (
	uidPart         = "uid="
	transitionsPart = "transitions="
	holderPart      = "holder="
)

// String is the one text form of a fence:
//
//	NAMESPACE/NAME;uid=UID;transitions=NUMBER;holder=HOLDER
//
// with the UID and the holder escaped as a segment of a URL's path (url.PathEscape).
func (f Fence) String() string {
	return f.Namespace + "/" + f.Name + ";" + uidPart + url.PathEscape(string(f.UID)) +
		";" + transitionsPart + strconv.FormatInt(int64(f.Transitions), 10) + ";" + holderPart + url.PathEscape(f.Holder)
}

// Parse reads what String wrote for a fence that passes Check; an error if text is anything else.
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
		return Fence{}, fmt.Errorf("%q is no number of transitions", number)
	}
	f.Transitions = int32(transitions)
	if f.Holder, err = value(parts[3], holderPart); err != nil {
		return Fence{}, err
	}
	if err := f.Check(); err != nil {
		return Fence{}, err
	}
	if f.String() != text {
		return Fence{}, errors.New("it is spelled in another way")
	}
	return f, nil
}

// value is the value of a part with a name.
func value(part, name string) (string, error) {
	escaped, ok := strings.CutPrefix(part, name)
	if !ok {
		return "", fmt.Errorf("%q stands where %sVALUE should", part, name)
	}
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return "", fmt.Errorf("%q is not escaped as it should be", escaped)
	}
	return plain, nil
}
