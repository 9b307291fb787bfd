package loosejson_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/garboard/garboard/libs/scheme/loosejson"
)

// sameAsLibrary checks that the fields of an object are encoded as the library encodes them.
func sameAsLibrary(t *testing.T, fields map[string]any) {
	t.Helper()
	var want bytes.Buffer
	wantErr := json.NewEncoder(&want).Encode(fields)
	got, err := loosejson.Append(nil, fields)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%v: got %v, want %v", fields, err, wantErr)
	}
	if err == nil && string(got)+"\n" != want.String() {
		t.Errorf("got  %s\nwant %s", got, want.String())
	}
}

func TestAppend(t *testing.T) {
	for _, value := range []any{
		nil, true, false, int64(0), int64(-7), int64(math.MaxInt64), 1.5, 1e21, 1e-7, 100.0, math.NaN(), "", "plain", "with \"quotes\" and \\", "<a & b>",
		"line\nfeed\ttab\x00\x1f\x7f", "Straße 漢字 \u2028", "invalid \xff\xc0", map[string]any(nil), []any(nil), map[string]any{}, []any{},
		map[string]any{"b": int64(1), "a": []any{"x", nil, map[string]any{"<z>": true, "y": 2.0}}, "ä": "ö", "": ""}, json.Number("12"), []string{"a"},
	} {
		sameAsLibrary(t, map[string]any{"value": value, "list": []any{value, value}})
	}
	sameAsLibrary(t, nil)
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte(`{"a": [1, 2.5, "x", null, {"b": true}], "c": "<\u2028>"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var fields map[string]any
		if utiljson.Unmarshal(data, &fields) == nil {
			sameAsLibrary(t, fields)
		}
	})
}
