package ruleset

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
)

// Hook is a place in the kernel's packet path.
type Hook uint8

// The hooks, by the kernel's numbers.
const (
	Prerouting Hook = iota
	Input
	Forward
	Output
	Postrouting
)

// String returns nft's keyword.
func (h Hook) String() string {
	return [...]string{"prerouting", "input", "forward", "output", "postrouting"}[h]
}

// Base attaches a chain to a hook.
type Base struct {
	// Type is "filter" or "nat".
	Type string
	Hook Hook
	// Priority orders the chains of a hook: lower values run first.
	Priority int32
}

// Rule is a list of expressions, from left to right.
type Rule []Expression

// Text returns the rule in nft's syntax.
func (r Rule) Text(f Family) string {
	parts := make([]string, len(r))
	for i, e := range r {
		parts[i] = e.Text(f)
	}
	return strings.Join(parts, " ")
}

// Chain is a chain with its rules.
type Chain struct {
	Name string
	// Base is nil for a chain that only verdicts reach.
	Base  *Base
	Rules []Rule
	// Comment says for people what the chain is for. It must come from Comment.
	Comment string
	// Digest identifies the rules; see Sealed.
	Digest string
}

// digestLength is the length of a digest and of the hash in a name, in characters of 5 bits.
const digestLength = 20

// Choices returns the elements of an EndpointsMap that the chain's rules need.
func (c *Chain) Choices() []Element {
	var elements []Element
	for _, rule := range c.Rules {
		for _, e := range rule {
			if t, ok := e.(Translate); ok {
				elements = append(elements, t.Choices()...)
			}
		}
	}
	return elements
}

// Sealed returns the chain with its Digest. Two chains with equal digests have equal rules and
// comments; their Choices may differ.
func (c Chain) Sealed(f Family) Chain {
	var text strings.Builder
	for _, rule := range c.Rules {
		text.WriteString(rule.Text(f))
		text.WriteByte('\n')
	}
	text.WriteString(c.Comment)
	c.Digest = digest(text.String())
	return c
}

// Name returns the name of a chain or set: a prefix, which must be a constant, and a hash of the
// parts. The parts may have any content; the name is always valid, and differs for different parts.
func Name(prefix string, parts ...string) string {
	// Quoted, different lists of parts never have one text.
	return prefix + "-" + digest(fmt.Sprintf("%q", parts))
}

// ID returns a number for a chain's name that no other chain has.
func ID(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return max(binary.BigEndian.Uint64(sum[:8]), 1)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:digestLength]
}

// maxComment is the most that Comment returns, in bytes. With a digest before it, a comment stays
// below nft's limit of 128 bytes.
const maxComment = 90

// Comment returns a text that is safe to show: at most 90 bytes of letters, digits and -._/: of
// ASCII. Every other byte becomes "?".
func Comment(text string) string {
	var b strings.Builder
	for i := 0; i < len(text) && i < maxComment; i++ {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._/:", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}
