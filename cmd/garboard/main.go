// Command garboard is the whole plane in one program: `garboard up` runs it, `garboard
// kubectl` talks to it, `garboard trace` shows what became of a change,
// `garboard watch` tells each change from NATS, `garboard doctor` says what is wrong, `garboard
// watchers` who is behind, `garboard snapshot` keeps what is in etcd.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/garboard/garboard/libs/daemon"
)

// version is set by the linker.
var version = "unknown"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		runKubectl(os.Args[2:])
		return
	}
	root := &cobra.Command{
		Use: "garboard", Short: "The Kubernetes API on a NATS nervous system", Version: version,
		SilenceErrors: true, SilenceUsage: true,
	}
	daemon.SayVersion(root)
	root.AddCommand(upCommand(), kubectlCommand(), traceCommand(), watchCommand(), snapshotCommand(), watchersCommand(), doctorCommand(), initCommand(), tokenCommand())
	os.Exit(daemon.Main(root))
}
