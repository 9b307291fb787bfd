package core

import (
	"crypto/tls"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// Secret defines the kind Secret.
func Secret() *kinds.Definition {
	return kinds.Of[*corev1.Secret]{
		Columns:  secretColumns(),
		Level:    kinds.Full,
		Default:  defaultSecret,
		Validate: validateSecret,
		Update: kinds.ChangeOf[*corev1.Secret]{
			Validate: validateSecretUpdate,
		},
		Warnings:    secretWarnings,
		FieldLabels: []string{"type"},
		Fields:      func(s *corev1.Secret) fields.Set { return fields.Set{"type": string(s.Type)} },
	}.Definition()
}

// secretWarnings warns about an invalid certificate or key.
func secretWarnings(s *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// defaultSecret sets the defaults of a secret, and moves the write-only stringData into data.
func defaultSecret(s *corev1.Secret) {
	kinds.FillString(&s.Type, corev1.SecretTypeOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func secretColumns() *columns.Layout {
	doc := corev1.Secret{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("Type", doc["type"]), columns.Text("Data", doc["data"]), columns.Age(),
	}, func(s *corev1.Secret, now time.Time) []any {
		return []any{s.Name, string(s.Type), int64(len(s.Data)), columns.AgeOf(s, now)}
	})
}
