package builtin

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/apps"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/batch"
)

func TestWorkloadFields(t *testing.T) {
	if got := batch.Job().Fields(&batchv1.Job{Status: batchv1.JobStatus{Succeeded: 3}}); got["status.successful"] != "3" {
		t.Errorf("job: got fields %v", got)
	}
	if got := apps.ReplicationController().Fields(&corev1.ReplicationController{Status: corev1.ReplicationControllerStatus{Replicas: 3}}); got["status.replicas"] != "3" {
		t.Errorf("replication controller: got fields %v", got)
	}
}
