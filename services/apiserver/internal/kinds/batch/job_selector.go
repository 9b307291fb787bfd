package batch

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// generateSelector makes a job select its pods by its UID, and labels them. A job that shares the map of its
// pods' labels is labelled too. Labels that a client has set to something else are left for validation to
// reject.
func generateSelector(j *batchv1.Job) {
	labels := j.Spec.Template.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range map[string]string{
		"job-name": j.Name, batchv1.JobNameLabel: j.Name, "controller-uid": string(j.UID), batchv1.ControllerUidLabel: string(j.UID),
	} {
		if _, ok := labels[key]; !ok {
			labels[key] = value
		}
	}
	j.Spec.Template.Labels = labels
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	if _, ok := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; ok {
		return
	}
	selected := maps.Clone(j.Spec.Selector.MatchLabels)
	if selected == nil {
		selected = map[string]string{}
	}
	selected[batchv1.ControllerUidLabel] = string(j.UID)
	j.Spec.Selector.MatchLabels = selected
}

// ownLabels replaces the labels of a job with a map of its own. A job without labels gets those of its
// pods, as it would when it is read.
func ownLabels(j *batchv1.Job) {
	if len(j.Labels) == 0 {
		j.Labels = j.Spec.Template.Labels
	}
	j.Labels = maps.Clone(j.Labels)
}

// renameJob replaces the taken name of a job in its labels with the new one.
func renameJob(j *batchv1.Job, taken string) {
	for _, labels := range []map[string]string{j.Labels, j.Spec.Template.Labels} {
		for _, key := range []string{"job-name", batchv1.JobNameLabel} {
			if labels[key] == taken {
				labels[key] = j.Name
			}
		}
	}
}
