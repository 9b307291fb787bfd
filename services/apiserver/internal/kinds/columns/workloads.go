package columns

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	containersDescription = "Names of each container in the template."
	imagesDescription     = "Images referenced by each container in the template."
)

func deployments() layout {
	spec, status := appsv1.DeploymentSpec{}.SwaggerDoc(), appsv1.DeploymentStatus{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Ready", "Number of the pod with ready state"),
		text("Up-to-date", status["updatedReplicas"]),
		text("Available", status["availableReplicas"]),
		age(),
		wide(text("Containers", containersDescription)),
		wide(text("Images", imagesDescription)),
		wide(text("Selector", spec["selector"])),
	}, func(d *appsv1.Deployment, now time.Time) []any {
		containers, images := template(&d.Spec.Template)
		return []any{
			d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, wanted(d.Spec.Replicas)), int64(d.Status.UpdatedReplicas),
			int64(d.Status.AvailableReplicas), ageOf(d, now), containers, images, selector(d.Spec.Selector),
		}
	})
}

// replicas returns the columns of workloads with a number of pods, with the descriptions of their
// type.
func replicas(spec, status map[string]string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		name(),
		number("Desired", spec["replicas"]),
		number("Current", status["replicas"]),
		number("Ready", status["readyReplicas"]),
		age(),
		wide(text("Containers", containersDescription)),
		wide(text("Images", imagesDescription)),
		wide(text("Selector", spec["selector"])),
	}
}

func replicaSets() layout {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	return of(replicas(spec, status), func(rs *appsv1.ReplicaSet, now time.Time) []any {
		containers, images := template(&rs.Spec.Template)
		return []any{
			rs.Name, int64(wanted(rs.Spec.Replicas)), int64(rs.Status.Replicas), int64(rs.Status.ReadyReplicas),
			ageOf(rs, now), containers, images, selector(rs.Spec.Selector),
		}
	})
}

func statefulSets() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Ready", "Number of the pod with ready state"),
		age(),
		wide(text("Containers", containersDescription)),
		wide(text("Images", imagesDescription)),
	}, func(s *appsv1.StatefulSet, now time.Time) []any {
		containers, images := template(&s.Spec.Template)
		return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, wanted(s.Spec.Replicas)), ageOf(s, now), containers, images}
	})
}

func daemonSets() layout {
	spec, status := appsv1.DaemonSetSpec{}.SwaggerDoc(), appsv1.DaemonSetStatus{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		number("Desired", status["desiredNumberScheduled"]),
		number("Current", status["currentNumberScheduled"]),
		number("Ready", status["numberReady"]),
		number("Up-to-date", status["updatedNumberScheduled"]),
		number("Available", status["numberAvailable"]),
		text("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]),
		age(),
		wide(text("Containers", containersDescription)),
		wide(text("Images", imagesDescription)),
		wide(text("Selector", spec["selector"])),
	}, func(d *appsv1.DaemonSet, now time.Time) []any {
		containers, images := template(&d.Spec.Template)
		return []any{
			d.Name, int64(d.Status.DesiredNumberScheduled), int64(d.Status.CurrentNumberScheduled), int64(d.Status.NumberReady),
			int64(d.Status.UpdatedNumberScheduled), int64(d.Status.NumberAvailable), labels.FormatLabels(d.Spec.Template.Spec.NodeSelector),
			ageOf(d, now), containers, images, selector(d.Spec.Selector),
		}
	})
}

func replicationControllers() layout {
	spec, status := corev1.ReplicationControllerSpec{}.SwaggerDoc(), corev1.ReplicationControllerStatus{}.SwaggerDoc()
	return of(replicas(spec, status), func(rc *corev1.ReplicationController, now time.Time) []any {
		var containers, images string
		if rc.Spec.Template != nil {
			containers, images = template(rc.Spec.Template)
		}
		return []any{
			rc.Name, int64(wanted(rc.Spec.Replicas)), int64(rc.Status.Replicas), int64(rc.Status.ReadyReplicas),
			ageOf(rc, now), containers, images, labels.FormatLabels(rc.Spec.Selector),
		}
	})
}

func podTemplates() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Containers", containersDescription),
		text("Images", imagesDescription),
		text("Pod Labels", "The labels for the pod template."),
	}, func(t *corev1.PodTemplate, _ time.Time) []any {
		containers, images := template(&t.Template)
		return []any{t.Name, containers, images, labels.FormatLabels(t.Template.Labels)}
	})
}

func controllerRevisions() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Controller", "Controller of the object"),
		text("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
		age(),
	}, func(r *appsv1.ControllerRevision, now time.Time) []any {
		controller := none
		if owner := metav1.GetControllerOf(r); owner != nil {
			group, _, _ := strings.Cut(owner.APIVersion, "/")
			if !strings.Contains(owner.APIVersion, "/") {
				group = ""
			}
			controller = strings.ToLower(owner.Kind)
			if group != "" {
				controller += "." + group
			}
			controller += "/" + owner.Name
		}
		return []any{r.Name, controller, r.Revision, ageOf(r, now)}
	})
}

// wanted returns a number of replicas, which defaults to 1.
func wanted(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

func template(t *corev1.PodTemplateSpec) (names, images string) {
	var n, i []string
	for _, c := range t.Spec.Containers {
		n, i = append(n, c.Name), append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

func selector(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }
