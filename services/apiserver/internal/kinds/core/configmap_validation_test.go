package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const badDataKey = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' " +
	"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"

func TestConfigMap(t *testing.T) {
	for _, tc := range []struct {
		name   string
		data   map[string]string
		binary map[string][]byte
		want   []string
	}{
		{"a MiB in two parts, the longest key", map[string]string{strings.Repeat("k", 253): strings.Repeat("v", 1<<19)}, map[string][]byte{"b": make([]byte, 1<<19)}, nil},
		{"a byte more", map[string]string{"a": strings.Repeat("v", 1<<19)}, map[string][]byte{"b": make([]byte, 1<<19+1)}, []string{
			"[]: Too long: may not be more than 1048576 bytes",
		}},
		{"a key in both", map[string]string{"a": ""}, map[string][]byte{"a": nil}, []string{
			`data[a]: Invalid value: "a": duplicate of key present in binaryData`,
		}},
		{"bad keys", map[string]string{"a b": "", "..": ""}, map[string][]byte{"": nil, strings.Repeat("k", 254): nil}, []string{
			`data[..]: Invalid value: "..": must not be '..'`, `data[a b]: Invalid value: "a b": ` + badDataKey,
			`binaryData[]: Invalid value: "": ` + badDataKey,
			"binaryData[" + strings.Repeat("k", 254) + `]: Invalid value: "` + strings.Repeat("k", 254) + `": must be no more than 253 characters`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &corev1.ConfigMap{ObjectMeta: meta(), Data: tc.data, BinaryData: tc.binary}
			errortest.Exactly(t, validateConfigMap(c), tc.want...)
			errortest.Exactly(t, validateConfigMapUpdate(c, &corev1.ConfigMap{ObjectMeta: meta()}), tc.want...)
		})
	}
}

// TestImmutable checks that immutable data stay, and stay immutable, and that their labels may change.
func TestImmutable(t *testing.T) {
	const stays = ": Forbidden: field is immutable when `immutable` is set"
	m := meta()
	m.ResourceVersion = "1"
	stored := &corev1.ConfigMap{ObjectMeta: m, Immutable: new(true), Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"c": []byte("d")}}
	secret := &corev1.Secret{ObjectMeta: m, Immutable: new(true), Data: map[string][]byte{"a": []byte("b")}, Type: "Opaque"}
	for _, tc := range []struct {
		name        string
		change      func(*corev1.ConfigMap)
		want        []string
		changeOther func(*corev1.Secret)
		wantOther   []string
	}{
		{"a label", func(c *corev1.ConfigMap) { c.Labels = map[string]string{"a": "b"} }, nil, func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} }, nil},
		{"everything", func(c *corev1.ConfigMap) { c.Immutable, c.Data, c.BinaryData = new(false), nil, nil }, []string{
			"immutable" + stays, "data" + stays, "binaryData" + stays,
		}, func(s *corev1.Secret) {
			s.Immutable, s.Data, s.Type = nil, map[string][]byte{"a": []byte("c")}, "other"
		}, []string{
			`type: Invalid value: "other": field is immutable`, "immutable" + stays, "data" + stays,
		}},
		{"a key more", func(c *corev1.ConfigMap) { c.Data["e"] = "" }, []string{"data" + stays}, func(s *corev1.Secret) { s.Data["e"] = nil }, []string{"data" + stays}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, s := stored.DeepCopy(), secret.DeepCopy()
			tc.change(c)
			tc.changeOther(s)
			errortest.Exactly(t, validateConfigMapUpdate(c, stored), tc.want...)
			errortest.Exactly(t, validateSecretUpdate(s, secret), tc.wantOther...)
		})
	}
	for _, before := range []*bool{nil, new(false)} {
		c, old := stored.DeepCopy(), stored.DeepCopy()
		old.Immutable, c.Data = before, nil
		errortest.Exactly(t, validateConfigMapUpdate(c, old))
	}
}
