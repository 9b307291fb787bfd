package subject

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	nothing    = "~"
	hashPrefix = "~h"
	// maxName is the longest name, in bytes, that a token spells out.
	maxName = 255
)

const hexDigits = "0123456789abcdef"

func plain(b byte) bool {
	return b > ' ' && b < 0x7f && b != '~' && b != '.' && b != '*' && b != '>'
}

// Token encodes a name as one token of a subject.
func Token(name string) string {
	switch {
	case name == "":
		return nothing
	case len(name) > maxName:
		sum := sha256.Sum256([]byte(name))
		return hashPrefix + hex.EncodeToString(sum[:])
	}
	special := 0
	for i := range len(name) {
		if !plain(name[i]) {
			special++
		}
	}
	if special == 0 {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + 2*special)
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('~')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// ParseToken decodes what Token encoded. It fails for the token of a name of more than 255 bytes,
// which cannot be decoded, and for tokens that Token never returns.
func ParseToken(token string) (string, error) {
	if token == nothing {
		return "", nil
	}
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		if plain(c) {
			b.WriteByte(c)
			continue
		}
		if c != '~' || i+2 >= len(token) {
			return "", fmt.Errorf("reading the subject token %q: it is not an encoded name", token)
		}
		high, low := strings.IndexByte(hexDigits, token[i+1]), strings.IndexByte(hexDigits, token[i+2])
		if high < 0 || low < 0 || plain(byte(high<<4|low)) {
			return "", fmt.Errorf("reading the subject token %q: it is not an encoded name", token)
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	if b.Len() == 0 || b.Len() > maxName {
		return "", fmt.Errorf("reading the subject token %q: it is not an encoded name", token)
	}
	return b.String(), nil
}
