package fabric_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/fabric"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

func chunkData(t testing.TB, c *watchv1.Chunk) []byte {
	t.Helper()
	data, err := proto.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAssembly(t *testing.T) {
	part := func(answer uint64, index, count uint32) []byte {
		return chunkData(t, &watchv1.Chunk{Answer: answer, Index: index, Count: count})
	}
	for name, tc := range map[string]struct {
		chunks [][]byte
		// want is the answer that is complete after the last chunk; 0 for none.
		want uint64
		size int
	}{
		"one":                            {[][]byte{part(1, 0, 1)}, 1, 1},
		"in order":                       {[][]byte{part(1, 0, 0), part(1, 1, 0), part(1, 2, 3)}, 1, 3},
		"out of order":                   {[][]byte{part(1, 2, 3), part(1, 0, 0), part(1, 1, 0)}, 1, 3},
		"repeated":                       {[][]byte{part(1, 0, 0), part(1, 0, 0), part(1, 1, 2)}, 1, 2},
		"a missing last chunk":           {[][]byte{part(1, 0, 0), part(1, 1, 0)}, 0, 0},
		"a missing chunk":                {[][]byte{part(1, 0, 0), part(1, 2, 3)}, 0, 0},
		"two responders, mixed":          {[][]byte{part(1, 0, 0), part(2, 1, 2)}, 0, 0},
		"two responders, one complete":   {[][]byte{part(1, 0, 0), part(2, 0, 0), part(2, 1, 2)}, 2, 2},
		"three incomplete, one complete": {[][]byte{part(1, 0, 0), part(2, 0, 0), part(3, 0, 0), part(4, 0, 0), part(3, 1, 2)}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var a fabric.Assembly
			for i, data := range tc.chunks {
				got, err := a.Add(data)
				if err != nil {
					t.Fatal(err)
				}
				if done := i == len(tc.chunks)-1 && tc.want != 0; done != (got != nil) {
					t.Fatalf("after chunk %d the answer has %d chunks", i, len(got))
				}
				if got != nil && (len(got) != tc.size || got[0].GetAnswer() != tc.want) {
					t.Errorf("got %d chunks of answer %d", len(got), got[0].GetAnswer())
				}
			}
		})
	}
	var a fabric.Assembly
	for name, data := range map[string][]byte{"beyond the count": part(1, 3, 2), "too many": part(1, 1<<20, 0), "garbage": []byte("\xff\xff")} {
		if _, err := a.Add(data); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestAssemblyIsBounded checks that the answers to one ask are limited in number and in size.
func TestAssemblyIsBounded(t *testing.T) {
	var many fabric.Assembly
	for id := range uint64(1000) {
		if _, err := many.Add(chunkData(t, &watchv1.Chunk{Answer: id})); (err != nil) != (id >= 4) {
			t.Fatalf("after answer %d: %v", id, err)
		}
	}
	var large fabric.Assembly
	chunk := chunkData(t, &watchv1.Chunk{Entries: []*watchv1.Entry{{Body: make([]byte, 16<<20)}}})
	for i := range 4 {
		if _, err := large.Add(chunk); (err != nil) != (i == 3) {
			t.Fatalf("after %d MB: %v", 16*(i+1), err)
		}
	}
	var beyond fabric.Assembly
	for i, c := range []*watchv1.Chunk{{Index: 2}, {Index: 0}, {Index: 1, Count: 2}} {
		if _, err := beyond.Add(chunkData(t, c)); (err != nil) != (i == 2) {
			t.Fatalf("after chunk %d: %v", i, err)
		}
	}
}

// FuzzAnswer checks that every accepted answer is possible.
func FuzzAnswer(f *testing.F) {
	past := &watchv1.History{Created: 1, Nonce: 1}
	entry := &watchv1.Entry{Revision: 5, Namespace: "a", Name: "p", Uid: "u"}
	f.Add(
		chunkData(f, &watchv1.Chunk{Answer: 1, Outcome: watchv1.Outcome_OUTCOME_CHANGES, History: past, Prev: 3, Revision: 9, Entries: []*watchv1.Entry{entry}}),
		chunkData(f, &watchv1.Chunk{Answer: 1, Index: 1, Count: 2, Outcome: watchv1.Outcome_OUTCOME_CHANGES, History: past, Prev: 3, Revision: 9}),
	)
	f.Add(chunkData(f, &watchv1.Chunk{Count: 1, Outcome: watchv1.Outcome_OUTCOME_WHOLE, History: past, Revision: 9, Entries: []*watchv1.Entry{entry}}), []byte("x"))
	view := fabric.View{Namespace: "a"}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var parts fabric.Assembly
		for _, data := range [][]byte{first, second} {
			chunks, err := parts.Add(data)
			if err != nil || chunks == nil {
				continue
			}
			a, err := view.Answer(chunks)
			if err != nil {
				continue
			}
			st := a.Statement
			if a.HasContent() != (!st.History.IsZero() && st.Revision > 0) && a.HasContent() || !a.HasContent() && len(st.Changes) > 0 ||
				a.HasContent() && st.Prev > st.Revision || st.Whole && st.Prev != fabric.Always {
				t.Fatalf("accepted %+v", a)
			}
			for _, chunk := range chunks {
				if fabric.HistoryOf(chunk.GetHistory()) != st.History || chunk.GetRevision() != st.Revision {
					t.Fatalf("accepted %+v with a chunk %v", a, chunk)
				}
			}
			for _, e := range st.Changes {
				if e.GetRevision() <= 0 || e.GetRevision() > st.Revision || e.GetNamespace() != "a" || e.GetDeleted() && st.Whole {
					t.Fatalf("accepted %+v with %v", a, e)
				}
			}
		}
	})
}
