// Package warnings adds warnings to the header of a response, within the bounds of Kubernetes.
package warnings

import (
	"net/http"
	"sync"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Kubernetes' bounds of warnings, in characters. Once all of them are longer than maxWarnings, each is cut to
// maxWarning, and once those are longer than maxWarnings, further ones are dropped.
const (
	maxWarnings = 4096
	maxWarning  = 256
)

// Header adds warnings to the header of a response, each text once. It is safe for concurrent use.
type Header struct {
	mu     sync.Mutex
	header http.Header
	texts  []string
	known  map[string]bool
	length int // of the texts in the header
	cut    bool
}

// New returns a Header that has the ones that the header has already.
func New(header http.Header) *Header {
	w := &Header{header: header, known: map[string]bool{}}
	found, _ := utilnet.ParseWarningHeaders(header.Values("Warning"))
	for _, warning := range found {
		w.texts, w.known[warning.Text] = append(w.texts, warning.Text), true
		w.length += utf8.RuneCountInString(warning.Text)
	}
	return w
}

// Add adds texts that are new.
func (w *Header) Add(texts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range texts {
		if text == "" || w.known[text] || w.cut && w.length >= maxWarnings {
			continue
		}
		w.texts, w.known[text] = append(w.texts, text), true
		if w.cut || w.length+utf8.RuneCountInString(text) <= maxWarnings {
			w.write(text)
			continue
		}
		w.cut, w.length = true, 0
		w.header.Del("Warning")
		for _, before := range w.texts {
			w.write(before)
		}
	}
}

// write adds one warning to the header.
func (w *Header) write(text string) {
	length := utf8.RuneCountInString(text)
	if w.cut && length > maxWarning {
		text, length = string([]rune(text)[:maxWarning]), maxWarning
	}
	header, err := utilnet.NewWarningHeader(299, "-", text)
	if err != nil { // The text is not valid UTF-8, or has control characters.
		return
	}
	w.length += length
	w.header.Add("Warning", header)
}
