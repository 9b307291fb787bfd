package wire

import (
	"fmt"

	"github.com/miekg/dns"
)

// Limits of RFC 1035, in bytes, and the labels that a name of that length can have.
const (
	maxName   = 255
	maxLabel  = 63
	maxLabels = 127
)

// Name is a domain name in wire form: lengths and labels in lower case, with the root at the end.
// The zero value is no name. A Name is a value: a copy is independent.
type Name struct {
	bytes [maxName]byte
	size  uint8
	// starts has the offset of each label in bytes, without the root.
	starts [maxLabels]uint8
	labels uint8
}

// ParseName returns the name of a text, relative to the root. It returns an error if the text is no
// domain name.
func ParseName(text string) (Name, error) {
	var n Name
	var packed [maxName + 1]byte
	end, err := dns.PackDomainName(dns.Fqdn(text), packed[:], 0, nil, false)
	if err != nil {
		return Name{}, fmt.Errorf("parsing the domain name %q: %w", text, err)
	}
	if got, ok := n.read(packed[:end], 0); !ok || got != end {
		return Name{}, fmt.Errorf("parsing the domain name %q: too long", text)
	}
	return n, nil
}

// read reads the uncompressed name at an offset of a message. It returns the offset behind it, and
// reports whether there is a valid name.
func (n *Name) read(message []byte, at int) (end int, ok bool) {
	n.size, n.labels = 0, 0
	size := 0
	for {
		if at >= len(message) {
			return 0, false
		}
		length := int(message[at])
		if length > maxLabel || at+1+length > len(message) || size+1+length > maxName {
			return 0, false
		}
		n.bytes[size] = byte(length)
		if length == 0 {
			n.size = uint8(size + 1)
			return at + 1, true
		}
		if n.labels == maxLabels {
			return 0, false
		}
		n.starts[n.labels] = uint8(size)
		n.labels++
		for i, c := range message[at+1 : at+1+length] {
			n.bytes[size+1+i] = lower(c)
		}
		size += 1 + length
		at += 1 + length
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// Bytes returns the wire form. The caller must not change it.
func (n *Name) Bytes() []byte { return n.bytes[:n.size] }

// Wire returns the wire form as a string.
func (n *Name) Wire() string { return string(n.Bytes()) }

// Labels returns the number of labels, without the root.
func (n *Name) Labels() int { return int(n.labels) }

// Label returns a label without its length; 0 is the leftmost. The caller must not change it.
func (n *Name) Label(i int) []byte {
	start := n.starts[i]
	return n.bytes[start+1 : int(start)+1+int(n.bytes[start])]
}

// From returns the wire form of the labels from first to the one before end, without the root.
func (n *Name) From(first, end int) []byte { return n.bytes[n.start(first):n.start(end)] }

// start is the offset of a label, or of the root.
func (n *Name) start(i int) int {
	if i >= int(n.labels) {
		return int(n.size) - 1
	}
	return int(n.starts[i])
}

// Below reports whether the name is another or below it, and how many labels it has more.
func (n *Name) Below(other *Name) (labels int, ok bool) {
	labels = int(n.labels) - int(other.labels)
	if labels < 0 || string(n.bytes[n.start(labels):n.size]) != string(other.Bytes()) {
		return 0, false
	}
	return labels, true
}

// Equal reports whether the names are the same.
func (n *Name) Equal(other *Name) bool { return string(n.Bytes()) == string(other.Bytes()) }

// Join returns the first labels of this name followed by another. It reports whether the result is
// a name: it may be too long.
func (n *Name) Join(labels int, other *Name) (Name, bool) {
	var joined [2 * maxName]byte
	size := copy(joined[:], n.From(0, labels))
	size += copy(joined[size:], other.Bytes())
	var name Name
	_, ok := name.read(joined[:size], 0)
	return name, ok
}

// String returns the name as text, with the dot of the root.
func (n *Name) String() string {
	if n.size == 0 {
		return ""
	}
	text, _, err := dns.UnpackDomainName(n.Bytes(), 0)
	if err != nil {
		return "?"
	}
	return text
}

// FromWire returns the name of a wire form. The caller knows that it is one.
func FromWire(text string) Name {
	var n Name
	n.read([]byte(text), 0)
	return n
}
