package batch

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// push adds a word with its length as the size; a word in capitals is a batch of its own.
func push(q *Queue[string], word string) { q.Push(word, len(word), word <= "Z~") }

func TestBatches(t *testing.T) {
	for _, tt := range []struct {
		words []string
		want  []string
	}{
		{[]string{"a", "b"}, []string{"[a b]"}},
		{[]string{"aa", "bb", "c", "d"}, []string{"[aa bb]", "[c d]"}},
		{[]string{"aaaaaaa", "b"}, []string{"[aaaaaaa]", "[b]"}},
		{[]string{"a", "A", "b", "c"}, []string{"[a]", "[A]", "[b c]"}},
		{[]string{"A", "B"}, []string{"[A]", "[B]"}},
	} {
		q := New[string](4)
		q.Close() // so that Pop does not wait
		for _, w := range tt.words {
			push(q, w)
		}
		var got []string
		for {
			batch := q.Pop(nil)
			if len(batch) == 0 {
				break
			}
			got = append(got, fmt.Sprint(batch))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v came as %v, want %v", tt.words, got, tt.want)
		}
		if q.Len() != 0 {
			t.Errorf("%d are left in an empty queue", q.Len())
		}
	}
}

func TestWriterAndReaderWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](2)
		written := 0
		go func() {
			for range 6 {
				push(q, "x")
				written++
			}
		}()
		synctest.Wait()
		if written != 4 || q.Len() != 4 {
			t.Errorf("%d were written and %d are queued, want two batches", written, q.Len())
		}
		if got := q.Pop(nil); len(got) != 2 {
			t.Errorf("a batch of %d", len(got))
		}
		synctest.Wait()
		if written != 6 {
			t.Errorf("the writer waits although there is room")
		}
		q.Pop(nil)
		q.Pop(nil)
		ended := false
		go func() {
			ended = len(q.Pop(nil)) == 0
		}()
		synctest.Wait()
		if ended {
			t.Fatal("the reader did not wait")
		}
		q.Close()
		synctest.Wait()
		if !ended {
			t.Error("Close did not wake the reader")
		}
	})
}
