package upstream

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How objects are deleted.
const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

// scripts returns those that may run at the same time.
func scripts() []script {
	return slices.Concat(deployments(), sets(), statefulSets(), daemonSets(), jobs(), cronJobs(), services(), volumes(), clusters(),
		attachments(), resourceClaims(), evictions(), identities(), autoscalers())
}

// replaced puts more of a spec into a template.
func replaced(template, more string) string { return strings.Replace(template, "MORE", more, 1) }

// replaceAll replaces each first of a pair by its second.
func replaceAll(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}
