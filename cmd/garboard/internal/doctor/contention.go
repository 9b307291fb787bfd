package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// writeBackOff is the reason of the Event when a controller becomes slower for an object, because something
// undoes what it writes.
const writeBackOff = "WriteBackOff"

// checkContention reports objects over which a controller and something else fight.
func checkContention(l list, f *Facts) {
	if f.ContentionErr != nil {
		l.add(Warn, "all", f.ContentionErr.Error(), "Use a kubeconfig that may list events.")
		return
	}
	var objects []string
	last := &corev1.Event{}
	for _, e := range f.Contention {
		of := e.InvolvedObject
		objects = append(objects, strings.ToLower(of.Kind)+" "+strings.TrimPrefix(of.Namespace+"/"+of.Name, "/"))
		if !lastSeen(e).Before(lastSeen(last)) {
			last = e
		}
	}
	if len(objects) == 0 {
		l.ok("writes", "nothing undoes what the controllers write")
		return
	}
	slices.Sort(objects)
	l.add(Warn, "writes", fmt.Sprintf("within the last hour something undid what controllers wrote (%s); the last Event: %s",
		some(slices.Compact(objects)), last.Message),
		"Find who else writes these objects, or what deletes or fails their pods (metadata.managedFields, the audit log): docs/operate/runbooks/GarboardControllerContention.md.")
}
