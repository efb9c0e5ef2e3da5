! A Fortran 2008 program against the installed library.
program consumer
  use, intrinsic :: iso_c_binding
  use pfpl
  implicit none
  integer(c_int64_t), parameter :: n = 50000
  real(c_float), allocatable, target :: field(:), restored(:)
  integer(c_int8_t), allocatable, target :: stream(:)
  real(c_double), parameter :: bound = 1e-3_c_double
  type(pfpl_header) :: header
  type(pfpl_capacity) :: capacity
  type(c_ptr) :: plan
  type(pfpl_damage), target :: damage
  integer(c_int64_t) :: length, i
  allocate (field(n), restored(n), stream(pfpl_max_stream_bytes(PFPL_F32, n)))
  field = [(sin(1e-3*real(i, c_float)), i=1, n)]
  call check(pfpl_compress_into(PFPL_F32, c_loc(field), n, bound, c_loc(stream), size(stream, kind=c_int64_t), length, c_null_ptr))
  call check(pfpl_read_header(c_loc(stream), length, header))
  if (header%n /= n .or. header%stream_bytes /= length) error stop "header"
  call check(pfpl_decompress(PFPL_F32, c_loc(stream), length, c_loc(restored), n, c_null_ptr, c_null_ptr, c_null_ptr))
  if (any(abs(real(field, c_double) - real(restored, c_double)) > bound)) error stop "bound"
  if (pfpl_decompress(PFPL_F32, c_loc(stream), length - 4, c_loc(restored), n, c_null_ptr, c_loc(damage), c_null_ptr) &
      /= PFPL_TRUNCATED) error stop "truncated"
  if (damage%chunk /= -1) error stop "damage"
  if (pfpl_status_text(PFPL_TRUNCATED) /= "truncated") error stop "text"
  capacity = pfpl_capacity_of(PFPL_F64, 5000_c_int64_t)
  if (capacity%chunks /= 3) error stop "capacity"
  if (pfpl_plan_new(PFPL_HIP, c_null_ptr, 999, c_null_ptr, capacity, plan, c_null_ptr, 0_c_int64_t) == PFPL_OK) error stop "plan"
  print '(a, i0, a, i0, a)', "Fortran: ", n, " values in ", length, " bytes"

contains

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status /= PFPL_OK) then
      print *, pfpl_status_text(status)
      error stop 1
    end if
  end subroutine

end program
