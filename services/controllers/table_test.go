package controllers

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestEnabled(t *testing.T) {
	for _, tt := range []struct {
		list string
		want bool
	}{
		{"*", true}, {"-job-controller,*", false}, {"*,-job-controller", false}, {"job-controller", true},
		{"cronjob-controller", false}, {"-cronjob-controller,*", true}, {"-job-controller", false},
		{"job-controller,-job-controller", true},
	} {
		if got := enabled("job-controller", strings.Split(tt.list, ",")); got != tt.want {
			t.Errorf("with %s: %v, want %v", tt.list, got, tt.want)
		}
	}
}

func TestListsOfControllers(t *testing.T) {
	for list, fault := range map[string]string{
		"*": "", "deployment-controller,replicaset-controller": "", "*,-garbage-collector-controller": "",
		"*,deploy":               `"deploy" is not in the list of known controllers: bootstrap-signer-controller, `,
		"-deploy":                `"deploy" is not in the list of known controllers`,
		"-deployment-controller": `"-deployment-controller" enables no controller`,
	} {
		cfg := config()
		cfg.Controllers = strings.Split(list, ",")
		_, err := New(cfg)
		switch {
		case fault == "" && err != nil:
			t.Errorf("%s: %v", list, err)
		case fault != "" && (err == nil || !strings.Contains(err.Error(), fault)):
			t.Errorf("%s: got %v, want %s", list, err, fault)
		}
	}
}

// TestTheTableNamesWhatItBuilds checks that the name of an entry is that of its declaration, and that no
// name appears twice.
func TestTheTableNamesWhatItBuilds(t *testing.T) {
	p := controltest.New(t)
	d := p.Deps()
	s := &Service{cfg: Config{Service: config().Service, RootCA: []byte("PEM"), NodeLifecycle: DefaultNodeLifecycle()}}
	var names []string
	for _, entry := range s.table(d, nil) {
		names = append(names, entry.name)
		built, err := entry.build()
		if err != nil {
			t.Errorf("%s: %v", entry.name, err)
		}
		if runner, ok := built.(*controller.Runner); ok && runner.Name() != entry.name {
			t.Errorf("the table calls the controller %s %s", runner.Name(), entry.name)
		}
	}
	slices.Sort(names)
	if got := slices.Compact(slices.Clone(names)); !slices.Equal(got, names) || !slices.Equal(got, Names()) {
		t.Errorf("the table names %q, Names %q", names, Names())
	}
}

// TestOnlyListedControllersRun checks that what a replica follows and runs depends on its list.
func TestOnlyListedControllersRun(t *testing.T) {
	cfg := config()
	cfg.Controllers = []string{"serviceaccount-controller"}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := controltest.New(t)
	s.shell.Use(p.Client, listwatch.New(p.Client, cfg.Service.Logger))
	if err := s.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.controllers) != 1 || s.collector != nil {
		t.Errorf("%d controllers run, with a garbage collector: %v", len(s.controllers), s.collector != nil)
	}
}

// own are the controllers that Kubernetes lacks.
func own() []string { return []string{"local-path-provisioner"} }

// TestEveryControllerOfKubernetesRunsOrHasAReason compares the table with testdata/names.txt.
func TestEveryControllerOfKubernetesRunsOrHasAReason(t *testing.T) {
	data, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	var runs []string
	for line := range strings.Lines(string(data)) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case name == "" || name == "#":
		case reason == "":
			runs = append(runs, name)
		case slices.Contains(Names(), name):
			t.Errorf("%s runs, and testdata/names.txt has a reason why it does not: %s", name, reason)
		}
	}
	slices.Sort(runs)
	kubernetes := slices.DeleteFunc(Names(), func(name string) bool { return slices.Contains(own(), name) })
	if !slices.Equal(runs, kubernetes) {
		t.Errorf("testdata/names.txt says that %q run, but the table has %q", runs, kubernetes)
	}
}
