package swap

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

// magic begins what Kubernetes encodes as protobuf.
const magic = "k8s\x00"

// form returns how a value in etcd is encoded: the encoding, and the version and kind.
func form(value string) string {
	if rest, ok := strings.CutPrefix(value, magic); ok {
		var unknown runtime.Unknown
		if err := unknown.Unmarshal([]byte(rest)); err != nil {
			return "protobuf that cannot be read: " + err.Error()
		}
		return fmt.Sprintf("protobuf %s %s %q %q", unknown.APIVersion, unknown.Kind, unknown.ContentEncoding, unknown.ContentType)
	}
	var found struct{ APIVersion, Kind string }
	if err := json.Unmarshal([]byte(value), &found); err != nil {
		return "neither protobuf nor JSON: " + err.Error()
	}
	newline := ""
	if strings.HasSuffix(value, "\n") {
		newline = " and a newline"
	}
	return fmt.Sprintf("JSON %s %s%s", found.APIVersion, found.Kind, newline)
}

// differing describes in what two values differ.
func differing(before, after string) string {
	if form(before) != form(after) {
		return fmt.Sprintf("%s becomes %s", form(before), form(after))
	}
	decode := func(value string) any {
		obj, _, err := scheme.New().Codecs().UniversalDeserializer().Decode([]byte(value), nil, nil)
		if err != nil { // It is JSON of a custom kind.
			return value
		}
		return obj
	}
	return fmt.Sprintf("%d bytes become %d (-before +after):\n%s", len(before), len(after), cmp.Diff(decode(before), decode(after)))
}

// forms returns the form of each of the test's objects in etcd, by resource and name. Generated names are cut.
func (c *cluster) forms() map[string]string {
	c.Helper()
	values, all := c.etcd.Values(c.T, "/registry/"), map[string]string{}
	for _, o := range c.objects {
		value, ok := values[o.key]
		if !ok {
			c.Errorf("%s: etcd has nothing at %s", c.running.name(), o.key)
			continue
		}
		key := o.key
		if at := strings.Index(key, generated); at >= 0 {
			key = key[:at+len(generated)]
		}
		all[key] = form(value)
	}
	return all
}

// loose returns an object of a Go type without one.
func loose(t *testing.T, obj scheme.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}
