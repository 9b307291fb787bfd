package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ConfigMap defines the kind ConfigMap.
func ConfigMap() *kinds.Definition {
	return kinds.Of[*corev1.ConfigMap]{
		Columns:  configMapColumns(),
		Level:    kinds.Full,
		Validate: validateConfigMap,
		Update:   kinds.ChangeOf[*corev1.ConfigMap]{Validate: validateConfigMapUpdate},
	}.Definition()
}

func configMapColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]), columns.Age(),
	}, func(c *corev1.ConfigMap, now time.Time) []any {
		return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), columns.AgeOf(c, now)}
	})
}
