package fabric_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/fabric"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// object is a change as a process might have it.
type object struct {
	name string
	body int
	gone bool
}

func entryOf(o object) *watchv1.Entry {
	e := &watchv1.Entry{Revision: 5, Namespace: "a", Name: o.name, Uid: o.name, Deleted: o.gone}
	if !o.gone {
		e.Body = bytes.Repeat([]byte(o.name[:1]), o.body)
	}
	return e
}

// TestSplit checks that what Split splits comes back from Assembly and Answer, in whatever order the
// chunks arrive, and that no chunk is much larger than one should be.
func TestSplit(t *testing.T) {
	var many []object
	for i := range 3000 {
		many = append(many, object{name: fmt.Sprintf("p%d", i), body: 300})
	}
	history := fabric.History{Created: 1, Nonce: 2}
	for name, tc := range map[string]struct {
		statement fabric.Statement[object]
		least     int
	}{
		"nothing":       {fabric.Statement[object]{History: history, Prev: 3, Revision: 9}, 1},
		"changes":       {fabric.Statement[object]{History: history, Prev: 3, Revision: 9, Changes: []object{{"x", 10, false}, {"y", 0, true}}}, 1},
		"an empty view": {fabric.Statement[object]{History: history, Prev: fabric.Always, Revision: 9, Whole: true}, 1},
		"many objects":  {fabric.Statement[object]{History: history, Prev: fabric.Always, Revision: 9, Whole: true, Changes: many}, 4},
		"one large object": {fabric.Statement[object]{
			History: history, Prev: 3, Revision: 9, Changes: []object{{"x", 10, false}, {"y", 1 << 20, false}, {"z", 10, false}},
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			chunks, err := fabric.Split(tc.statement, entryOf)
			if err != nil || len(chunks) < tc.least {
				t.Fatalf("got %d chunks, %v", len(chunks), err)
			}
			for i, chunk := range chunks {
				if name != "one large object" && len(chunk) > 256<<10 {
					t.Errorf("chunk %d has %d bytes", i, len(chunk))
				}
			}
			var parts fabric.Assembly
			var assembled []*watchv1.Chunk
			messages := fabric.Tag(chunks, 7)
			for i := range messages {
				if assembled != nil {
					t.Fatalf("the answer is complete after %d of %d chunks", i, len(messages))
				}
				if assembled, err = parts.Add(messages[len(messages)-1-i]); err != nil {
					t.Fatal(err)
				}
			}
			if assembled[0].GetAnswer() != 7 {
				t.Errorf("the answer has the number %d", assembled[0].GetAnswer())
			}
			got, err := fabric.View{Namespace: "a"}.Answer(assembled)
			if err != nil {
				t.Fatal(err)
			}
			want := tc.statement
			if s := got.Statement; s.History != want.History || s.Prev != want.Prev || s.Revision != want.Revision || s.Whole != want.Whole ||
				len(s.Changes) != len(want.Changes) {
				t.Fatalf("got (%d, %d] of %v, whole %t, with %d changes", s.Prev, s.Revision, s.History, s.Whole, len(s.Changes))
			}
			for i, e := range got.Statement.Changes {
				if !proto.Equal(e, entryOf(want.Changes[i])) {
					t.Fatalf("change %d is %v", i, e)
				}
			}
		})
	}
}

// TestTag checks that chunks can answer several asks.
func TestTag(t *testing.T) {
	chunks, err := fabric.Split(fabric.Statement[object]{History: fabric.History{Created: 1}, Revision: 9}, entryOf)
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(chunks[0])
	for _, number := range []uint64{1, 1<<64 - 1} {
		var chunk watchv1.Chunk
		if err := proto.Unmarshal(fabric.Tag(chunks, number)[0], &chunk); err != nil || chunk.GetAnswer() != number {
			t.Errorf("got %v, %v", &chunk, err)
		}
	}
	if !bytes.Equal(before, chunks[0]) {
		t.Error("the chunks were changed")
	}
}
