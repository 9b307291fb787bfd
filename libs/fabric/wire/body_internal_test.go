package wire

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// encoded returns the encodings of messages one after the other, which is that of all merged.
func encoded(t testing.TB, messages ...*watchv1.Message) []byte {
	t.Helper()
	var all []byte
	for _, m := range messages {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// TestDecode: a body is read like every other field, and is a part of the data where there is one.
func TestDecode(t *testing.T) {
	whole := &watchv1.Message{Revision: 3, Name: "a", Body: []byte("body"), PrevAll: 2, Kind: "Pod"}
	for name, tt := range map[string]struct {
		data   []byte
		shared bool
	}{
		"a message":             {encoded(t, whole), true},
		"a body alone":          {encoded(t, &watchv1.Message{Body: []byte("b")}), true},
		"fields after the body": {encoded(t, whole, &watchv1.Message{Revision: 4, Uid: "u"}), true},
		"no body":               {encoded(t, &watchv1.Message{Revision: 3}), false},
		"nothing":               {nil, false},
		"two bodies":            {encoded(t, whole, &watchv1.Message{Body: []byte("other")}), false},
		"an empty second body":  {append(encoded(t, whole), 0x8a, 0x01, 0x00), false},
		"an empty body":         {[]byte{0x8a, 0x01, 0x00}, false},
		"a body that is none":   {[]byte{0x88, 0x01, 0x05}, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := &watchv1.Message{}
			if err := proto.Unmarshal(tt.data, want); err != nil {
				t.Fatal(err)
			}
			data := bytes.Clone(tt.data)
			got, err := decode(data)
			if err != nil || !proto.Equal(got, want) {
				t.Fatalf("got %v, %v; want %v", got, err, want)
			}
			for i := range data {
				data[i] ^= 0xff
			}
			if shared := !bytes.Equal(got.GetBody(), want.GetBody()); shared != tt.shared {
				t.Errorf("the body is a part of the data: %v, want %v", shared, tt.shared)
			}
		})
	}
	if _, err := decode([]byte("\xff")); err == nil {
		t.Error("garbage was accepted")
	}
}

// FuzzDecode: decode reads what proto.Unmarshal reads, and refuses what it refuses.
func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, &watchv1.Message{Revision: 3, Name: "a", Body: []byte("body"), PrevAll: 2}))
	f.Add(encoded(f, &watchv1.Message{Body: []byte("a")}, &watchv1.Message{Body: []byte("b")}))
	f.Add([]byte{0x8a, 0x01, 0x00})
	f.Add([]byte{0x8a, 0x01, 0x05, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		want := &watchv1.Message{}
		wantErr := proto.Unmarshal(data, want)
		got, err := decode(data)
		if (err == nil) != (wantErr == nil) || err == nil && !proto.Equal(got, want) {
			t.Fatalf("got %v, %v; want %v, %v", got, err, want, wantErr)
		}
	})
}
