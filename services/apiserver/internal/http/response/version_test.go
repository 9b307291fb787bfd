package response

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestVersionIn compares JSON with an inserted resourceVersion with what the serializer writes.
func TestVersionIn(t *testing.T) {
	for name, text := range map[string]string{
		"usual":            `{"apiVersion":"a/v1","kind":"B","metadata":{"labels":{"uid":"x"},"name":"c","uid":"u"},"spec":{"a":[1,{"b":"}"}]}}`,
		"first":            `{"metadata":{"uid":"u"}}`,
		"last":             `{"metadata":{"name":"c"},"spec":{}}`,
		"earlier fields":   `{"Data":{"metadata":{"uid":"no"}},"list":[[],{},"]",true,-1.5,null],"metadata":{"name":"c","uid":"u"}}`,
		"quotes and signs": `{"a":"\\","b":"\"metadata\":{\"uid\":","c":"\\\"","metadata":{"annotations":{"x":"\\\\\"},{"},"name":"\u003c","uid":"u"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var want unstructured.Unstructured
			if err := json.Unmarshal([]byte(text), &want.Object); err != nil {
				t.Fatal(err)
			}
			want.SetResourceVersion("123")
			expected, err := json.Marshal(want.Object)
			if err != nil {
				t.Fatal(err)
			}
			place, ok := versionIn([]byte(text))
			if !ok {
				t.Fatal("found no place")
			}
			if got := place.appendVersioned(nil, []byte(text), "123"); !bytes.Equal(got, expected) {
				t.Errorf("got  %s\nwant %s", got, expected)
			}
		})
	}
	for _, text := range []string{
		"", "{", "{}", "[]", `{"a":1}`, `{"metadata":{}}`, `{"metadata":null}`, `{"metadata":[]}`, `{"metadata"`, `{"metadata":{"name`, `{"a":"\`,
		`{ "metadata":{"uid":"u"}}`, `{"metadata":{"resourceVersion":"1","uid":"u"}}`, `{"metadata":{"a\u0062":1,"uid":"u"}}`, `{"a":{"b":[1,2}`,
	} {
		if place, ok := versionIn([]byte(text)); ok {
			t.Errorf("%s: found the place %+v", text, place)
		}
	}
}

// FuzzVersionIn inserts the resourceVersion into any JSON.
func FuzzVersionIn(f *testing.F) {
	f.Add([]byte(`{"a":"\\","metadata":{"name":"c","uid":"u"},"z":[{}]}`))
	f.Add([]byte(`{"metadata":{"uid":"u"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = versionIn(data) // It does not panic, whatever the bytes.
		var object map[string]any
		if json.Unmarshal(data, &object) != nil {
			return
		}
		metadata, ok := object["metadata"].(map[string]any)
		if !ok {
			return
		}
		delete(metadata, "resourceVersion")
		delete(metadata, "selfLink")
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		place, ok := versionIn(text)
		if !ok {
			if escaped := strings.ContainsRune(string(text), '\\'); len(metadata) > 0 && !escaped {
				t.Fatalf("found no place in %s", text)
			}
			return
		}
		metadata["resourceVersion"] = "7"
		want, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if got := place.appendVersioned(nil, text, "7"); !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}
