package protocol

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// FuzzFrame checks that a decoded frame is encoded to the same bytes.
func FuzzFrame(f *testing.F) {
	for _, seed := range []Frame{
		{Kind: KindRequest, Flags: FlagFirst | FlagLast, Credit: 5, Head: []byte("GET / HTTP/1.1\r\n\r\n"), Body: []byte("x")},
		{Kind: KindRequest, Flags: FlagLast, Number: 7, Body: []byte("y")},
		{Kind: KindAnswer, Flags: FlagFirst, Head: []byte("HTTP/1.1 200 OK\r\n\r\n")},
		{Kind: KindAnswer, Number: 1 << 40, Body: []byte("z")},
		{Kind: KindCredit, Number: 1 << 20},
		{Kind: KindAbort},
	} {
		f.Add(seed.AppendTo(nil))
	}
	f.Add(EncodeQuestions([]Question{{1, 2, 3, 4}}))
	f.Add(EncodeReplies([]Reply{{1, true, 3}, {Call: 4}}))
	f.Add([]byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Decode(data)
		if err != nil {
			return
		}
		if again := got.AppendTo(nil); !bytes.Equal(again, data) {
			t.Errorf("%x was re-encoded as %x", data, again)
		}
		if got.Kind != KindBeat {
			return
		}
		if questions, err := DecodeQuestions(got.Body); err == nil {
			again, err := Decode(EncodeQuestions(questions))
			if err != nil || !bytes.Equal(again.Body, got.Body) {
				t.Errorf("questions %x: %v", data, err)
			}
		}
		if replies, err := DecodeReplies(got.Body); err == nil {
			again, err := Decode(EncodeReplies(replies))
			if err != nil || !bytes.Equal(again.Body, got.Body) {
				t.Errorf("replies %x: %v", data, err)
			}
		}
	})
}

func TestFrameRoundTrip(t *testing.T) {
	for _, f := range []Frame{
		{Kind: KindRequest, Flags: FlagFirst | FlagLast, Credit: 1 << 33, Head: []byte("head"), Body: []byte("body")},
		{Kind: KindAnswer, Flags: FlagLast, Number: 1 << 40, Body: []byte("z")},
		{Kind: KindCredit, Number: 12, Body: []byte{}},
	} {
		data := f.AppendTo(nil)
		if len(data) != f.Overhead()+len(f.Body) {
			t.Errorf("the overhead of %+v is %d, want %d", f, len(data)-len(f.Body), f.Overhead())
		}
		if got, err := Decode(data); err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%+v is decoded as %+v, %v", f, got, err)
		}
	}
}

// TestDecodeRefuses checks that each rule of the format is held.
func TestDecodeRefuses(t *testing.T) {
	head := []byte("GET / HTTP/1.1\r\n\r\n")
	valid := Frame{Kind: KindRequest, Flags: FlagFirst, Credit: 1, Head: head, Body: []byte("body")}.AppendTo(nil)
	if _, err := Decode(valid); err != nil {
		t.Fatal(err)
	}
	changed := func(at int, to byte) []byte {
		data := bytes.Clone(valid)
		data[at] = to
		return data
	}
	const headLength = frameHeader + creditSize
	for name, data := range map[string][]byte{
		"nothing":                      {},
		"less than a header":           valid[:frameHeader-1],
		"more than a frame":            Frame{Kind: KindAnswer, Body: make([]byte, MaxBody+1)}.AppendTo(nil),
		"an unknown kind":              changed(0, byte(KindBeat)+1),
		"kind 0":                       changed(0, 0),
		"an unknown flag":              changed(1, FlagFirst|4),
		"flags of credit":              {byte(KindCredit), FlagLast, 0, 0, 0, 0, 0, 0, 0, 0},
		"a first part at an offset":    changed(frameHeader-1, 1),
		"no credit":                    valid[:headLength-1],
		"no length of the head":        valid[:headLength+headPrefix-1],
		"a head longer than the frame": changed(headLength+headPrefix-1, 255),
		"too long a head": Frame{
			Kind: KindAnswer, Flags: FlagFirst, Head: make([]byte, MaxHead+1),
		}.AppendTo(nil),
	} {
		if f, err := Decode(data); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: decoded as kind %d with %d bytes, %v", name, f.Kind, len(f.Body), err)
		}
	}
	if f, err := Decode(Frame{Kind: KindAnswer, Body: make([]byte, MaxBody)}.AppendTo(nil)); err != nil || len(f.Body) != MaxBody {
		t.Errorf("the largest frame is decoded with %d bytes, %v", len(f.Body), err)
	}
}

// TestBeats checks that questions and replies arrive as they were sent, and that no more than
// MaxQuestions of them, and no parts of them, are accepted.
func TestBeats(t *testing.T) {
	questions := []Question{{Server: 1, Call: 2, Granted: 3, Sent: 4}, {Call: 1 << 60}}
	f, err := Decode(EncodeQuestions(questions))
	if err != nil || f.Kind != KindBeat {
		t.Fatalf("decoded as %+v, %v", f, err)
	}
	if got, err := DecodeQuestions(f.Body); err != nil || !reflect.DeepEqual(got, questions) {
		t.Errorf("the questions arrive as %+v, %v", got, err)
	}
	replies := []Reply{{Call: 7, Known: true, Sent: 1 << 60}, {Call: 8}}
	f, err = Decode(EncodeReplies(replies))
	if err != nil || f.Kind != KindBeat {
		t.Fatalf("decoded as %+v, %v", f, err)
	}
	if got, err := DecodeReplies(f.Body); err != nil || !reflect.DeepEqual(got, replies) {
		t.Errorf("the replies arrive as %+v, %v", got, err)
	}
	for name, err := range map[string]error{
		"a part of a question": second(DecodeQuestions(make([]byte, questionSize+1))),
		"too many questions":   second(DecodeQuestions(make([]byte, questionSize*(MaxQuestions+1)))),
		"a part of a reply":    second(DecodeReplies(make([]byte, replySize-1))),
		"too many replies":     second(DecodeReplies(make([]byte, replySize*(MaxQuestions+1)))),
		"an unknown state":     second(DecodeReplies(append(make([]byte, 8), 2, 0, 0, 0, 0, 0, 0, 0, 0))),
	} {
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
