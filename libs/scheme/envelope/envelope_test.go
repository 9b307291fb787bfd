package envelope_test

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme/envelope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sealed(t testing.TB, unknown runtime.Unknown) []byte {
	t.Helper()
	data, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(envelope.Prefix), data...)
}

func TestNames(t *testing.T) {
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for name, tt := range map[string]struct {
		about runtime.TypeMeta
		more  []byte
		kind  schema.GroupVersionKind
		want  bool
	}{
		"its own":         {runtime.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, nil, deployment, true},
		"the core group":  {runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, nil, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, true},
		"another kind":    {runtime.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, nil, deployment, false},
		"another version": {runtime.TypeMeta{APIVersion: "apps/v2", Kind: "Deployment"}, nil, deployment, false},
		"another group":   {runtime.TypeMeta{APIVersion: "v1", Kind: "Deployment"}, nil, deployment, false},
		"more":            {runtime.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, []byte{0x12, 0x00}, deployment, false},
		"nothing":         {runtime.TypeMeta{}, nil, deployment, false},
	} {
		about, err := tt.about.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got := envelope.Names(append(about, tt.more...), tt.kind); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	for _, about := range [][]byte{nil, {0xff}, {0x08, 0x01}, {0x0a, 0x05, 'a'}} {
		if envelope.Names(about, deployment) {
			t.Errorf("%x names a kind", about)
		}
	}
}

// FuzzOpen: what Open returns is what runtime.Unknown reads.
func FuzzOpen(f *testing.F) {
	good := sealed(f, runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: []byte("raw")})
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(bytes.Clone(good), 0x12, 0x01, 'b'))
	f.Add(append(bytes.Clone(good), 0x0a, 0x00))
	f.Add(sealed(f, runtime.Unknown{Raw: []byte("raw"), ContentEncoding: "gzip"}))
	f.Add([]byte("raw"))
	f.Fuzz(func(t *testing.T, data []byte) {
		about, message := envelope.Open(data)
		if message == nil {
			return
		}
		isPod := envelope.Names(about, schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
		var want runtime.Unknown
		err := want.Unmarshal(data[len(envelope.Prefix):])
		if err != nil && !isPod {
			return // Whoever has no use for the kind asks Kubernetes' own reader.
		}
		if err != nil || !bytes.Equal(message, want.Raw) || want.ContentEncoding != "" || want.ContentType != "" {
			t.Fatalf("got %q; want %q, %v", message, want.Raw, err)
		}
		if isPod && (want.APIVersion != "v1" || want.Kind != "Pod") {
			t.Fatalf("%q names a pod, not %v", about, want.TypeMeta)
		}
	})
}
