package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestSecretData checks what the data of each type of secret must have.
func TestSecretData(t *testing.T) {
	data := func(keys ...string) map[string][]byte {
		m := map[string][]byte{}
		for _, key := range keys {
			m[key] = nil
		}
		return m
	}
	const redacted = `: Invalid value: "<secret contents redacted>": unexpected end of JSON input`
	for _, tc := range []struct {
		name string
		kind corev1.SecretType
		data map[string][]byte
		want []string
	}{
		{"a MiB", corev1.SecretTypeOpaque, map[string][]byte{"a": make([]byte, 1<<20)}, nil},
		{"a byte more", corev1.SecretTypeOpaque, map[string][]byte{"a": make([]byte, 1<<20), "b": {0}}, []string{"data: Too long: may not be more than 1048576 bytes"}},
		{"a bad key", "example.com/own", data("a b"), []string{`data[a b]: Invalid value: "a b": ` + badDataKey}},
		{"a token of nothing", corev1.SecretTypeServiceAccountToken, nil, []string{"metadata.annotations[kubernetes.io/service-account.name]: Required value"}},
		{"no registries", corev1.SecretTypeDockercfg, nil, []string{"data[.dockercfg]: Required value"}},
		{"registries", corev1.SecretTypeDockercfg, map[string][]byte{".dockercfg": []byte("{}")}, nil},
		{"bad registries", corev1.SecretTypeDockercfg, data(".dockercfg"), []string{"data[.dockercfg]" + redacted}},
		{"registries in the newer form", corev1.SecretTypeDockerConfigJson, data(".dockercfg"), []string{"data[.dockerconfigjson]: Required value"}},
		{"a bad one of them", corev1.SecretTypeDockerConfigJson, data(".dockerconfigjson"), []string{"data[.dockerconfigjson]" + redacted}},
		{"neither user nor password", corev1.SecretTypeBasicAuth, nil, []string{"data[username]: Required value", "data[password]: Required value"}},
		{"a user without a password", corev1.SecretTypeBasicAuth, data("username"), nil},
		{"a password without a user", corev1.SecretTypeBasicAuth, data("password"), nil},
		{"an empty key", corev1.SecretTypeSSHAuth, data("ssh-privatekey"), []string{"data[ssh-privatekey]: Required value"}},
		{"a key", corev1.SecretTypeSSHAuth, map[string][]byte{"ssh-privatekey": {0}}, nil},
		{"an empty certificate", corev1.SecretTypeTLS, data("tls.crt", "tls.key"), nil},
		{"no certificate", corev1.SecretTypeTLS, nil, []string{"data[tls.crt]: Required value", "data[tls.key]: Required value"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &corev1.Secret{ObjectMeta: meta(), Type: tc.kind, Data: tc.data}
			errortest.Exactly(t, validateSecret(s), tc.want...)
		})
	}
}
