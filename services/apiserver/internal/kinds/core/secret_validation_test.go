package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestSecretTypes(t *testing.T) {
	for kind, tc := range map[corev1.SecretType]struct {
		data map[string][]byte
		want []string
	}{
		corev1.SecretTypeOpaque:           {map[string][]byte{"a/b": nil}, []string{"data[a/b]: Invalid value"}},
		corev1.SecretTypeBasicAuth:        {nil, []string{"data[username]: Required value", "data[password]: Required value"}},
		corev1.SecretTypeSSHAuth:          {nil, []string{"data[ssh-privatekey]: Required value"}},
		corev1.SecretTypeDockerConfigJson: {map[string][]byte{".dockerconfigjson": []byte("{")}, []string{"data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\""}},
		corev1.SecretTypeTLS:              {map[string][]byte{"tls.crt": nil, "tls.key": nil}, nil},
		"example.com/own":                 {map[string][]byte{"a": nil}, nil},
	} {
		errortest.Contain(t, validateSecret(&corev1.Secret{ObjectMeta: meta(), Type: kind, Data: tc.data}), tc.want...)
	}
}
