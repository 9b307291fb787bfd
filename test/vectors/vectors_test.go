package vectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type vector struct {
	Case   json.RawMessage `json:"case"`
	Answer []string        `json:"answer,omitempty"`
}

func file(t *testing.T, count int) []byte {
	t.Helper()
	written := make([]vector, count)
	for i := range written {
		written[i] = vector{Case: json.RawMessage(fmt.Sprintf(`{"a":%d}`, i))}
		if i%2 == 0 {
			written[i].Answer = []string{"e"}
		}
	}
	var whole bytes.Buffer
	if err := Write(&whole, written); err != nil {
		t.Fatal(err)
	}
	return whole.Bytes()
}

// TestRoundTrip checks that vectors come back whole and in order: nothing of one is left in the next.
func TestRoundTrip(t *testing.T) {
	n := 0
	err := Read(bytes.NewReader(file(t, 100)), func(v vector) error {
		if want := fmt.Sprintf(`{"a":%d}`, n); string(v.Case) != want || len(v.Answer) != 1-n%2 {
			t.Fatalf("got %s %q, want %s", v.Case, v.Answer, want)
		}
		n++
		return nil
	})
	if err != nil || n != 100 {
		t.Errorf("got %d vectors: %v", n, err)
	}
}

func TestSameVectorsGiveSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := file(t, 10)
		time.Sleep(time.Hour)
		if !bytes.Equal(first, file(t, 10)) {
			t.Error("two files of the same vectors differ")
		}
	})
}

func TestUnreadable(t *testing.T) {
	whole := file(t, 100)
	for name, data := range map[string][]byte{
		"empty": nil, "half": whole[:len(whole)/2], "without the end": whole[:len(whole)-1], "not compressed": []byte(`{"case":1}`),
	} {
		if err := Read(bytes.NewReader(data), func(vector) error { return nil }); err == nil {
			t.Errorf("%s: read without an error", name)
		}
	}
}

func TestReadEndsAtTheFirstError(t *testing.T) {
	refused, n := errors.New("refused"), 0
	err := Read(bytes.NewReader(file(t, 10)), func(vector) error {
		n++
		return refused
	})
	if !errors.Is(err, refused) || n != 1 {
		t.Errorf("got %v after %d vectors", err, n)
	}
}
