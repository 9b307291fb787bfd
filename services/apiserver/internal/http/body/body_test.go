package body

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kjson "sigs.k8s.io/json"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted counts what is read of it.
type counted struct {
	io.Reader
	read int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

// TestRead checks what is read of bodies of all sizes and kinds, with true, false and no announced length.
func TestRead(t *testing.T) {
	deep := strings.Repeat("[", 1<<20)
	for name, c := range map[string]struct {
		body, contentType string
		length            int64
		most              int // bytes read
		cut               bool
		refused           func(error) bool
	}{
		"empty":                     {length: 0},
		"small":                     {body: "{}", length: 2},
		"unknown length":            {body: strings.Repeat("a", 100_000), length: -1, contentType: "text/plain"},
		"large":                     {body: strings.Repeat("a", 2<<20), length: 2 << 20},
		"shorter than announced":    {body: "{}", length: Most},
		"longer than announced":     {body: strings.Repeat("a", 200_000), length: 3},
		"the limit":                 {body: strings.Repeat("a", Most), length: Most},
		"too large":                 {body: strings.Repeat("a", Most+1), length: Most + 1, refused: apierrors.IsRequestEntityTooLargeError},
		"too large and deep":        {body: strings.Repeat("[", Most+1), length: Most + 1, refused: apierrors.IsRequestEntityTooLargeError},
		"too large, unknown":        {body: strings.Repeat("a", Most+1), length: -1, refused: apierrors.IsRequestEntityTooLargeError},
		"deep":                      {body: deep, length: 1 << 20, contentType: "application/json", cut: true, most: 2 * trusted},
		"deep without type":         {body: deep, length: 1 << 20, cut: true, most: 2 * trusted},
		"a deep patch":              {body: deep, length: 1 << 20, contentType: "application/merge-patch+json; charset=utf-8", cut: true, most: 2 * trusted},
		"brackets that are no JSON": {body: deep, length: 1 << 20, contentType: "application/vnd.kubernetes.protobuf"},
		"brackets in a text":        {body: `{"a": "\"` + deep + `"}`, length: -1, contentType: "application/json"},
		"wide":                      {body: "[" + strings.Repeat("[],", 100_000) + "[]]", length: -1, contentType: "application/json"},
	} {
		source := &counted{Reader: iotest.OneByteReader(strings.NewReader(c.body))}
		if len(c.body) > 1<<16 {
			source.Reader = strings.NewReader(c.body)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", source)
		r.ContentLength = c.length
		if c.contentType != "" {
			r.Header.Set("Content-Type", c.contentType)
		}
		began := time.Now()
		got, err := Read(httptest.NewRecorder(), r)
		if took := time.Since(began); c.cut && took < deepRest {
			t.Errorf("%s: answered after %v", name, took)
		}
		switch {
		case c.refused != nil:
			if !c.refused(err) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case c.cut:
			if len(got) >= len(c.body) || !strings.HasPrefix(c.body, string(got)) || source.read > c.most {
				t.Errorf("%s: %d bytes, of %d that were read", name, len(got), source.read)
			}
		case string(got) != c.body:
			t.Errorf("%s: got %d bytes, want %d", name, len(got), len(c.body))
		}
	}
}

// TestMemory checks that no client makes a large buffer without sending as much.
func TestMemory(t *testing.T) {
	data, err := read(strings.NewReader("{}"), Most)
	if err != nil || cap(data) > trusted {
		t.Errorf("a buffer of %d bytes, %v", cap(data), err)
	}
	large := bytes.Repeat([]byte("a"), 2<<20)
	all := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := read(bytes.NewReader(large), int64(len(large))); err != nil {
				b.Fatal(err)
			}
		}
	})
	if got := all.AllocedBytesPerOp(); got > 2<<20+2*trusted+64<<10 {
		t.Errorf("%d bytes for a body of 2 MiB", got)
	}
}

// FuzzShallow checks that JSON which a decoder accepts is read whole, and that what is cut decodes with the same error.
func FuzzShallow(f *testing.F) {
	for _, text := range []string{`{"a":[1,"]"]}`, `"\\"`, `[[`, `{"a":"\""}`, "]]]"} {
		f.Add(text, uint16(1))
	}
	f.Add("[", uint16(deepest+1))
	f.Add(`{"a":`, uint16(deepest+1))
	f.Fuzz(func(t *testing.T, text string, times uint16) {
		whole := []byte(strings.Repeat(text, int(times)))
		if len(whole) > 1<<20 {
			t.Skip()
		}
		got, err := read(Shallow(bytes.NewReader(whole)), -1)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == len(whole) {
			return
		}
		var value any
		if json.Valid(whole) || json.Valid(got) {
			t.Fatalf("valid JSON was cut after %d of %d bytes", len(got), len(whole))
		}
		want, found := kjson.UnmarshalCaseSensitivePreserveInts(whole, &value), kjson.UnmarshalCaseSensitivePreserveInts(got, &value)
		if want == nil || found == nil || want.Error() != found.Error() {
			t.Errorf("got %v, want %v", found, want)
		}
	})
}
