package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
)

func TestPage(t *testing.T) {
	catalog, err := builtin.Catalog(scheme.New(), builtin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	write(&page, catalog)
	text := page.String()
	for _, line := range []string{
		"\n## apps/v1\n",
		"\n## events.k8s.io/v1\n",
		"\n| Secret | secrets |  | namespace | all |  | ", " | Name, Type, Data, Age | `secrets/NAMESPACE/NAME` |\n",
		"\n| Namespace | namespaces | ns | cluster | create delete get list patch update watch | finalize status | ",
		" | Name, Status, Age | `namespaces/NAME` |\n",
		"; Internal-IP, External-IP, OS-Image, Kernel-Version, Container-Runtime | `minions/NAME` |\n",
		" | `events/NAMESPACE/NAME` as v1 Event |\n",
		"\n| NetworkPolicy | no traffic is refused by it | network plugin |\n",
		"\n| pods/resize | the limits of running containers stay as they are; make the pod anew | kubelet |\n",
		"\n| Pod `spec.volumes[].emptyDir.sizeLimit` | ",
		"\n| all | an invalid generateName beside a name",
		"\n| TokenReview | tokenreviews |  | cluster | create |  | answered |  |  |\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the page lacks %q", line)
		}
	}
	if n := strings.Count(text, "emptyDir.sizeLimit"); n != 1 {
		t.Errorf("a field of pods is listed %d times, want once", n)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if row := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| --"); row && seen[line] && !strings.HasPrefix(line, "| kind | ") {
			t.Errorf("the page has this row twice: %s", line)
		}
		seen[line] = true
	}
	for _, kind := range catalog.Table().Kinds() {
		if !strings.Contains(text, "\n| "+kind.Kind+" | "+kind.Resource+" |") {
			t.Errorf("the page lacks %s", kind.Kind)
		}
	}
}
