package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

func ComponentStatusColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("Status", "Status of the component conditions"), columns.Text("Message", "Message of the component conditions"),
		columns.Text("Error", "Error of the component conditions"),
	}, func(c *corev1.ComponentStatus, _ time.Time) []any {
		status, message, failure := "Unknown", "", ""
		for _, condition := range c.Conditions {
			if condition.Type == corev1.ComponentHealthy {
				status, message, failure = "Unhealthy", condition.Message, condition.Error
				if condition.Status == corev1.ConditionTrue {
					status = "Healthy"
				}
				break
			}
		}
		return []any{c.Name, status, message, failure}
	})
}
