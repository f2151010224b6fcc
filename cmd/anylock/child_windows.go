package main

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A process is a child in a job object. The job also contains every process that the command starts, and is killed when
// this process ends.
type process struct {
	cmd     *exec.Cmd
	job     windows.Handle
	reports chan childEvent
}

// startChild starts p. Windows has no job control, so the channel for signals is not used.
func startChild(p program, _ chan<- os.Signal) (child, error) {
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	c := &process{job: job, reports: make(chan childEvent), cmd: &exec.Cmd{
		Path: p.file, Args: p.argv, Env: p.env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		// A new process group gets no Ctrl-C from the console: we forward it as Ctrl-Break.
		SysProcAttr: &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP},
	}}
	if err := c.cmd.Start(); err != nil {
		windows.CloseHandle(job)
		return nil, err
	}
	if err := c.join(); err != nil {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		windows.CloseHandle(job)
		return nil, err
	}
	go func() {
		c.cmd.Wait()
		c.reports <- childEvent{code: c.cmd.ProcessState.ExitCode()}
	}()
	return c, nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	return job, limitJob(job, windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)
}

func limitJob(job windows.Handle, flags uint32) error {
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: flags},
	}
	_, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return err
}

func (c *process) join() error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(c.cmd.Process.Pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(p)
	return windows.AssignProcessToJobObject(c.job, p)
}

func (c *process) events() <-chan childEvent { return c.reports }

func (c *process) renewed() {}

func (c *process) forward(os.Signal) {
	windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(c.cmd.Process.Pid))
}

func (c *process) terminate(bool) { c.forward(nil) }

func (c *process) kill() { windows.TerminateJobObject(c.job, exitSignal+uint32(syscall.SIGKILL)) }

// basicAccounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION of winnt.h.
type basicAccounting struct {
	TotalUserTime, TotalKernelTime, ThisPeriodTotalUserTime, ThisPeriodTotalKernelTime int64
	TotalPageFaultCount, TotalProcesses, ActiveProcesses, TotalTerminatedProcesses     uint32
}

func (c *process) groupEnded() bool {
	var info basicAccounting
	err := windows.QueryInformationJobObject(c.job, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	return err == nil && info.ActiveProcesses == 0
}

func (c *process) foreign() bool { return false }

func (c *process) stopped(os.Signal) bool { return false }

func (c *process) suspend() {}

func (c *process) resume() {}

// close releases the job without killing it: processes that the command left in the background keep running.
func (c *process) close() {
	limitJob(c.job, 0)
	windows.CloseHandle(c.job)
}
